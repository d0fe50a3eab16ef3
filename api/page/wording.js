// Numbers and states as text. Pure.

/** 0:04.2; with hours 1:00:04.2; an en dash if it is not a time. */
export function clock(seconds, digits = 1) {
  if (!Number.isFinite(seconds) || seconds < 0) return "–";
  const unit = 10 ** digits;
  const whole = Math.round(seconds * unit);
  const rest = (whole % (60 * unit)) / unit;
  const minutes = Math.floor(whole / (60 * unit)) % 60;
  const hours = Math.floor(whole / (3600 * unit));
  const tail = rest.toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${tail}` : `${minutes}:${tail}`;
}

/** The same for a screen reader: "4.2 seconds", "1 minute 4 seconds". */
export function spokenTime(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return "unknown";
  if (seconds < 60) return counted(Number(seconds.toFixed(1)), "second");
  const whole = Math.round(seconds);
  return `${counted(Math.floor(whole / 60), "minute")} ${counted(whole % 60, "second")}`;
}

export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** 1234 -> "1,234". The browser's own takes up to 70 ms at its first use, which is while the page starts. */
export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");

export function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

/** A figure of a table: fixed digits, an en dash if it is missing. */
export function figure(value, digits = 3) {
  return Number.isFinite(value) ? value.toFixed(digits) : "–";
}

/** A tick label: no trailing zeros, thousands as k. */
export function tick(value) {
  if (Math.abs(value) >= 10000) return `${Number((value / 1000).toFixed(1))}k`;
  return String(Number(value.toPrecision(6)));
}

/** `cuda:0` and `cpu` as text; other names stay as they are. */
export function device(name) {
  if (!name || name === "none") return "none yet";
  if (name === "cpu") return "CPU";
  return /^(cuda|gpu)/i.test(name) ? `GPU (${name})` : name;
}

/** An ISO time in the format of the browser; other texts stay as they are. */
export function moment(iso) {
  const time = new Date(iso);
  if (!iso || Number.isNaN(time.getTime())) return iso ?? "";
  return time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export function runName(run) {
  if (run.kind === "named") return run.id;
  return run.id === "current" ? "Current run" : moment(run.created) || run.path_name || run.id;
}

/** "the base", "epoch 3", "epoch 3 at 50%": of {candidate, epoch} or of {id, epoch}; "… of ana" with `of_run`. */
export function candidateName(one) {
  const id = one.candidate ?? one.id ?? "";
  const of = one.of_run ? ` of ${one.of_run}` : "";
  if (id === "base") return `the base${of}`;
  if (id === "base_decoder") return `the base with a trained decoder${of}`;
  const share = Number(/_share_([\d.]+)$/.exec(id)?.[1]);
  return `epoch ${one.epoch}${share ? ` at ${Math.round(100 * share)}%` : ""}${of}`;
}

/** The name of a served voice, "epoch 2 (905c8a39)", without the hash of its weights. Pure. */
export const withoutHash = (name) => name.replace(/ \([0-9a-f]{8}\)$/, "");

/** "ana, epoch 2", "epoch 2" of the current run, or the voice of /status without its hash. Pure. */
export function servedName({ served, runs, voice }) {
  if (!served) return withoutHash(voice ?? "");
  const run = runs.find((one) => one.id === served.run);
  return run && run.id !== "current" ? `${runName(run)}, ${candidateName(served)}` : candidateName(served);
}

/** How a sample was made: "Spoken on the CPU in 2.1 s (there is no GPU)." */
export function sampleInfo(sample) {
  if (!sample) return "";
  if (sample.mode === "skipped") return sample.reason || "This sample was skipped.";
  const where = sample.device ? ` on the ${device(sample.device)}` : "";
  const took = Number.isFinite(sample.seconds) ? ` in ${sample.seconds.toFixed(1)} s` : "";
  const why = sample.reason ? ` (${sample.reason.replace(/\.$/, "")})` : "";
  return `Spoken${where}${took}${why}.`;
}

/** A time as precise as an estimate allows. */
export function roughTime(seconds) {
  const minutes = Math.round(seconds / 60);
  if (minutes < 1) return "less than a minute";
  if (minutes < 60) return `about ${minutes} min`;
  return `about ${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export const timeLeft = (seconds) => (Number.isFinite(seconds) ? `${roughTime(seconds)} left` : "no estimate yet");

// By the `phase` of a run between two steps.
const PHASES = {
  validating: (epoch) => `measuring the validation loss of epoch ${epoch}`,
  saving: (epoch) => `saving epoch ${epoch}`,
  sampling: (epoch) => `speaking a sample of epoch ${epoch}`,
  judging: (epoch) => `judging epoch ${epoch}`,
  concluding: () => "all epochs trained; choosing the best",
};

/** The activity of a run: "epoch 2 of 4, step 10 of 50", or "epoch 2 of 4, judging epoch 2". */
export function progressInfo({ epoch, epochs, step, steps, phase }) {
  const what = PHASES[phase]?.(epoch) ?? `step ${step} of ${steps}`;
  return `epoch ${epoch} of ${epochs}, ${what}`;
}

/** A size on disk: 850 kB, 12.3 MB, 1.24 GB. */
export function diskSize(bytes) {
  if (bytes < 1e6) return `${Math.ceil(bytes / 1e3)} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

/** A file name made from these parts. */
export function fileName(...parts) {
  return parts.join("_").replace(/[^\w.-]+/g, "-").slice(0, 80);
}

// The languages of XTTS-v2.
export const LANGUAGES = ["ar", "cs", "de", "en", "es", "fr", "hi", "hu", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh-cn"];

/** [{value, text}] by name; codes: the languages of the served voice; empty: all of XTTS-v2. */
export function languageOptions(codes) {
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  return (codes?.length ? codes : LANGUAGES).map((code) => ({ value: code, text: names.of(code) }))
    .sort((a, b) => a.text.localeCompare(b.text));
}
