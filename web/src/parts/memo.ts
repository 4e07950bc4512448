/** A component that is drawn again only when one of its properties is another one. */
import { Component, h, type ComponentType } from "preact";

export function memo<Props extends object>(inner: ComponentType<Props>): ComponentType<Props> {
  return class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Props): boolean {
      const names = Object.keys(next) as (keyof Props)[];
      const props = this.props as Props;
      return names.some((name) => next[name] !== props[name]);
    }

    render() {
      return h(inner, this.props as Props);
    }
  };
}
