/** Starts the page. */
import { render } from "preact";
import { live } from "./api/live";
import { App } from "./app";
import "./style/index.css";

const place = document.getElementById("page");
if (place) render(<App />, place);
live.start();
