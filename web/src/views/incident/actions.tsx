/** What people can do about an incident. Each action says what it changes before it does it. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { acknowledge, closeIncident, endSilence, markFalseAlarm, silence, takeBackAcknowledgement, unmarkFalseAlarm } from "../../api/client";
import { asApiError } from "../../api/hooks";
import type { Done, IncidentDetail } from "../../api/types";
import { shown } from "../../format/names";
import { Dialog } from "../../parts/dialog";
import { sentence } from "../../parts/notice";
import { toast } from "../../parts/toast";

type Asking = "close" | "accept" | "silence" | "false alarm" | null;

const LENGTHS: [value: string, text: string][] = [
  ["30min", "30 minutes"], ["2h", "2 hours"], ["8h", "8 hours"], ["1d", "1 day"], ["100steps", "100 steps"], ["1000steps", "1000 steps"],
];

interface ActionsProps {
  incident: IncidentDetail;
  /** Whether its signal is silenced, be it for warnings only. */
  silenced: boolean;
  onDone: () => void;
}

export function Actions({ incident, silenced, onDone }: ActionsProps) {
  const [asking, setAsking] = useState<Asking>(null);
  const [busy, setBusy] = useState(false);
  const { id, signal, is_open: open, false_alarm: falseAlarm } = incident;
  const run = incident.run.id;

  const act = async (request: Promise<Done>) => {
    setBusy(true);
    try {
      toast(sentence((await request).text));
      setAsking(null);
      onDone();
    } catch (error) {
      toast(sentence(asApiError(error).message), true);
    } finally {
      setBusy(false);
    }
  };

  return (
    <div class="buttons" role="group" aria-label="Actions">
      {open && incident.acknowledged_by.length === 0 && (
        <button type="button" class="button primary" disabled={busy} onClick={() => void act(acknowledge(run, id, storedName()))}>
          Acknowledge
        </button>
      )}
      {open && incident.acknowledged_by.length > 0 && (
        <button type="button" class="button" disabled={busy} onClick={() => void act(takeBackAcknowledgement(run, id))}>
          Take acknowledgement back
        </button>
      )}
      {open && (
        <>
          <button type="button" class="button" onClick={() => setAsking("close")}>
            Close …
          </button>
          <button type="button" class="button" onClick={() => setAsking("accept")}>
            Accept as normal …
          </button>
        </>
      )}
      {silenced ? (
        <button type="button" class="button" disabled={busy} onClick={() => void act(endSilence(run, signal))}>
          End silence
        </button>
      ) : (
        <button type="button" class="button" onClick={() => setAsking("silence")}>
          Silence …
        </button>
      )}
      {falseAlarm ? (
        <button type="button" class="button" disabled={busy} onClick={() => void act(unmarkFalseAlarm(run, id))}>
          Not a false alarm
        </button>
      ) : (
        <button type="button" class="button" onClick={() => setAsking("false alarm")}>
          False alarm …
        </button>
      )}

      {asking === "close" && (
        <Form title="Close this incident" submit="Close" busy={busy} onCancel={() => setAsking(null)}
          onSubmit={(by) => void act(closeIncident(run, id, by, false))}>
          <p>
            It is dealt with. The same trouble opens a new incident only after it has been quiet, or if it gets clearly worse.
          </p>
        </Form>
      )}
      {asking === "accept" && (
        <Form title="Accept as normal" submit="Accept" busy={busy} onCancel={() => setAsking(null)}
          onSubmit={(by) => void act(closeIncident(run, id, by, true))}>
          <p>
            The level of {shown(incident.metric || signal)} is normal from now on: its detectors learn it afresh, and checkpoints that were
            saved during the incident count as good.
          </p>
        </Form>
      )}
      {asking === "silence" && (
        <Form title={`Silence ${shown(signal)}`} submit="Silence" busy={busy} onCancel={() => setAsking(null)}
          onSubmit={(by, form) =>
            void act(silence(run, signal, String(form.get("length")), form.get("critical") !== null, by))}>
          <p>
            Warnings on {shown(signal)} in this run notify nobody. They are still recorded and shown here. Critical
            incidents are still sent, unless you tick the box.
          </p>
          <label class="field">
            For how long
            <select name="length">
              {LENGTHS.map(([value, text]) => (
                <option key={value} value={value}>
                  {text}
                </option>
              ))}
            </select>
          </label>
          <label>
            <input type="checkbox" name="critical" /> Silence critical incidents, too
          </label>
        </Form>
      )}
      {asking === "false alarm" && (
        <Form title="Mark as a false alarm" submit="Mark" busy={busy} onCancel={() => setAsking(null)}
          onSubmit={(by, form) => void act(markFalseAlarm(run, id, String(form.get("note") ?? ""), by))}>
          <p>The mark is kept beside the run, for tuning later. It changes nothing else.</p>
          <label class="field">
            What it really was (optional)
            <textarea name="note" rows={3} maxLength={1000} />
          </label>
        </Form>
      )}
    </div>
  );
}

interface FormProps {
  title: string;
  submit: string;
  busy: boolean;
  onCancel: () => void;
  onSubmit: (by: string, form: FormData) => void;
  children: ComponentChildren;
}

function Form({ title, submit, busy, onCancel, onSubmit, children }: FormProps) {
  return (
    <Dialog title={title} onClose={onCancel}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const form = new FormData(event.currentTarget);
          const by = String(form.get("by") ?? "").trim();
          storeName(by);
          onSubmit(by, form);
        }}
      >
        {children}
        <label class="field">
          Your name (optional)
          <input type="text" name="by" maxLength={80} value={storedName()} autocomplete="username" />
        </label>
        <div class="buttons">
          <button type="submit" class="button primary" disabled={busy}>
            {submit}
          </button>
          <button type="button" class="button" onClick={onCancel}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const NAME = "klarm.name";

function storedName(): string {
  try {
    return localStorage.getItem(NAME) ?? "";
  } catch {
    return "";
  }
}

function storeName(name: string): void {
  try {
    localStorage.setItem(NAME, name);
  } catch {
    // A browser that stores nothing asks again next time.
  }
}
