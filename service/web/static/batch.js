// The batch view: matches lines with papers, starts a batch, and shows how far the one is that the address names.
import { ask } from "./actions.js";

const POLL_MS = 1000;
const AWAY_MS = 3000;
const WINDOW_MS = 30000; // of what was done in it, the rate is said
const TYPED_MS = 600; // after the last letter lines are looked for
const MAX_SHOWN = 20; // results below the batch; the others have pages of their own
const STATES = {
  queued: "Waiting to be started",
  running: "Searching",
  done: "Done",
  failed: "Failed",
};

const of = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
let seen = []; // [when, how many were done], of the last WINDOW_MS
let timer = 0;
let asking = new AbortController(); // ended where another batch, or none, is shown
let key = ""; // the same content sent again starts no second batch
let checking = new AbortController();
let checked = null; // the lines that were looked for, and what was found for them
let typing = 0;
let shown = 0; // results of the batch on the page

const batchId = () => new URLSearchParams(location.search).get("id");
const batchPath = (id) => `/v1/batches/${encodeURIComponent(id)}`;

function show(element, text) {
  element.textContent = text;
  element.hidden = !text;
}

async function problemOf(response) {
  const problem = await response.json().catch(() => ({}));
  return problem.detail || `The service answered ${response.status}; try again in a moment.`;
}

// A part of a page of the service, by its id; an error says why there is none.
async function partOf(path, id, options) {
  const response = await ask(path, { ...options, headers: { Accept: "text/html" } });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const part = page.getElementById(id);
  if (part) return part;
  const said = page.querySelector(".problem .lead")?.textContent;
  throw new Error(said ?? `The service answered ${response.status}; try again in a moment.`);
}

// Looks for the lines as they are now, and shows which of them match a paper; null where others follow them.
async function check() {
  clearTimeout(typing);
  const text = of("list").value;
  if (checked?.text === text) return checked;
  checking.abort();
  checking = new AbortController();
  const { signal } = checking;
  const body = new FormData();
  body.append("list", text);
  const lines = await partOf("/batch/lines", "lines", { method: "POST", body, signal }).catch((error) => {
    if (signal.aborted) return null;
    throw error;
  });
  if (!lines || signal.aborted) return null;
  const names = JSON.parse(lines.dataset.names);
  checked = { text, names, lost: Number(lines.dataset.lost) };
  lines.classList.remove("batch");
  of("matched").replaceChildren(lines);
  of("start").textContent = names.length ? `Start with ${number.format(names.length)} ${names.length === 1 ? "paper" : "papers"}` : "Start";
  return checked;
}

function changed() {
  key = "";
  checked = null;
  clearTimeout(typing);
  checking.abort();
  show(of("refused"), "");
  of("start").textContent = "Start";
  for (const button of of("matched").querySelectorAll("button")) button.disabled = true; // of lines as they were
  if (of("list").value.trim()) typing = setTimeout(() => check().catch((error) => show(of("refused"), said(error))), TYPED_MS);
  else of("matched").replaceChildren();
}

function said(error) {
  return error instanceof TypeError || error instanceof SyntaxError ? "The service does not answer; try again in a moment." : error.message;
}

// A line is put right: what it may have meant stands in its place.
function mean(button) {
  const lines = of("list").value.split("\n");
  lines[Number(button.dataset.line) - 1] = button.dataset.id;
  of("list").value = lines.join("\n");
  changed();
  of("matched").focus();
  check().catch((error) => show(of("refused"), said(error)));
}

async function start(event) {
  event.preventDefault();
  if (!of("list").value.trim()) return show(of("refused"), "Paste one paper at least.");
  of("start").disabled = true;
  show(of("refused"), "");
  try {
    const seen = checked?.text === of("list").value;
    const found = await check();
    if (!found) return;
    if (!found.names.length) return show(of("refused"), "None of these lines matches a paper of this collection.");
    if (found.lost && !seen) {
      const lines = found.lost === 1 ? "One line matches no paper" : `${number.format(found.lost)} lines match no paper`;
      return show(of("refused"), `${lines}. Correct what you can, or press Start again to go on with the others.`);
    }
    await send(found.names);
  } catch (error) {
    show(of("refused"), said(error));
  } finally {
    of("start").disabled = false;
  }
}

async function send(seeds) {
  const body = { seeds, limit: Number(of("limit").value) };
  if (of("facet").value) body.facet = of("facet").value;
  key ||= Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16)).join("-");
  const response = await ask("/v1/batches", {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": key },
    body: JSON.stringify(body),
  }).catch((error) => {
    if (!(error instanceof TypeError)) throw error;
    throw new Error("The service does not answer. Press Start again: no batch is started twice.");
  });
  if (!response.ok) throw new Error(await problemOf(response));
  const batch = await response.json();
  history.pushState(null, "", `/batch?id=${encodeURIComponent(batch.id)}`);
  key = "";
  open();
  of("watch").focus();
}

function timeLeft(seconds) {
  if (seconds < 60) return `about ${number.format(Math.max(1, Math.ceil(seconds)))} s left`;
  if (seconds < 5400) return `about ${number.format(Math.round(seconds / 60))} min left`;
  return `about ${number.format(Math.round(seconds / 3600))} h left`;
}

// How fast it went lately, and how long the rest takes at that pace; nothing where it cannot be told yet.
function pace(batch) {
  const now = performance.now();
  seen = [...seen.filter(([when]) => now - when < WINDOW_MS), [now, batch.done]];
  const [when, done] = seen[0];
  const perSecond = (1000 * (batch.done - done)) / (now - when);
  if (batch.finished_at !== null || !(perSecond > 0)) return "";
  const said = number.format(perSecond < 10 ? Number(perSecond.toPrecision(2)) : Math.round(perSecond));
  return `· ${said} a second · ${timeLeft((batch.queries - batch.done) / perSecond)}`;
}

// The heading of the batch, which screen readers are told where it changes.
function head(title) {
  if (of("state").textContent === title) return;
  of("state").textContent = of("status").textContent = title;
}

function draw(batch) {
  const finished = batch.finished_at !== null;
  head(STATES[batch.state] ?? batch.state);
  document.title = `${Math.floor((100 * batch.done) / batch.queries)} % · Batch search · Akin`;
  of("bar").max = batch.queries;
  of("bar").value = batch.done;
  const without = batch.problems === 1 ? "1 of them has no answer" : `${number.format(batch.problems)} of them have no answer`;
  of("done").textContent = `${number.format(batch.done)} of ${number.format(batch.queries)} papers`;
  of("rate").textContent = pace(batch);
  show(of("problems"), batch.problems ? `${without}; the file says why.` : "");
  show(of("away"), batch.error ?? "");
  of("remove").textContent = finished ? "Remove" : "Cancel";
  of("kept").hidden = finished;
  of("files").hidden = false;
  for (const ending of ["csv", "ndjson"]) {
    of(ending).textContent = `Download ${ending.toUpperCase()}${finished ? "" : " so far"}`;
  }
}

// The first results, as soon as there are some; one more than are shown has a link to it. False where they did not come.
async function preview(batch, signal) {
  const ready = Math.min(batch.ready, MAX_SHOWN + 1);
  if (!(ready > shown)) return true;
  const papers = await partOf(`/batch/${encodeURIComponent(batch.id)}/papers`, "papers", { signal }).catch(() => null);
  if (!papers || signal.aborted) return false;
  of("results").replaceChildren(papers);
  shown = ready;
  return true;
}

function ended(title, text) {
  head(title);
  document.title = `${title} · Batch search · Akin`;
  show(of("away"), text);
  of("done").textContent = of("rate").textContent = "";
  for (const id of ["bar", "problems", "kept", "csv", "ndjson", "remove", "results"]) of(id).hidden = true;
  of("files").hidden = false; // "Start another" stays
}

async function poll() {
  const { signal } = asking;
  let wait = POLL_MS;
  try {
    const response = await ask(batchPath(batchId()), { signal });
    if (response.ok) {
      const batch = await response.json();
      if (signal.aborted) return;
      draw(batch);
      if ((await preview(batch, signal)) && batch.finished_at !== null) return;
      if (signal.aborted) return;
    } else if (response.status < 500 && response.status !== 429) {
      if (signal.aborted) return;
      ended(response.status === 404 ? "No such batch" : "The batch cannot be shown", await problemOf(response));
      return;
    } else {
      show(of("away"), `${await problemOf(response)} This page tries again.`);
      wait = AWAY_MS;
    }
  } catch (error) {
    if (signal.aborted) return;
    show(of("away"), error instanceof TypeError ? "The service does not answer. Nothing is lost; this page tries again." : said(error));
    wait = AWAY_MS;
  }
  timer = setTimeout(poll, wait);
}

async function remove() {
  if (!confirm("The batch is ended, and what it found is removed. Go on?")) return;
  of("remove").disabled = true;
  try {
    const response = await ask(batchPath(batchId()), { method: "DELETE" });
    if (response.ok) {
      clearTimeout(timer);
      asking.abort();
      ended("Removed", "The batch and its results are gone.");
      of("watch").focus();
    } else {
      show(of("away"), await problemOf(response));
    }
  } catch (error) {
    show(of("away"), said(error));
  }
  of("remove").disabled = false;
}

// The batches started before, below the form; without them, or a key, nothing.
async function earlier() {
  const list = await partOf("/batch/earlier", "earlier").catch(() => null);
  of("before").replaceChildren(...(list?.querySelector("li") ? [list] : []));
}

// A file's text: UTF-8, UTF-16 with its mark, or Windows-1252.
async function textOf(file) {
  const bytes = await file.arrayBuffer();
  const marked = { 254: "utf-16be", 255: "utf-16le" }[new Uint8Array(bytes)[0]];
  try {
    return new TextDecoder(marked, { fatal: !marked }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

// A file is read into the box, and its lines are matched.
async function choose() {
  const [file] = of("file").files;
  if (!file) return;
  of("list").value = await textOf(file);
  changed();
}

// Shows the form, or the batch that the address names.
function open() {
  clearTimeout(timer);
  asking.abort();
  asking = new AbortController();
  seen = [];
  const id = batchId();
  of("ask").hidden = Boolean(id);
  of("watch").hidden = !id;
  of("results").replaceChildren();
  shown = 0;
  if (!id) {
    document.title = "Batch search · Akin";
    changed();
    earlier();
    return;
  }
  of("state").textContent = "Looking for the batch";
  of("bar").removeAttribute("value");
  for (const ending of ["csv", "ndjson"]) of(ending).href = `/batch/${encodeURIComponent(id)}.${ending}`;
  for (const part of ["bar", "csv", "ndjson", "remove", "kept", "results"]) of(part).hidden = false;
  of("files").hidden = true;
  show(of("away"), "");
  poll();
}

of("ask").addEventListener("submit", start);
of("list").addEventListener("input", changed);
of("file").addEventListener("change", choose);
of("ask").addEventListener("change", () => (key = "")); // other content
of("matched").addEventListener("click", (event) => event.target.dataset.line && mean(event.target));
of("remove").addEventListener("click", remove);
addEventListener("popstate", open);
open();
