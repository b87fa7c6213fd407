// The batch view: starts a batch, and shows how far the one is that the address names.

const POLL_MS = 1000;
const AWAY_MS = 3000;
const WINDOW_MS = 30000; // of what was done in it, the rate is said
const STATES = {
  queued: "Waiting to be started",
  running: "Finding akin papers",
  done: "Done",
  failed: "Failed",
};

const of = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
let seen = []; // [when, how many were done], of the last WINDOW_MS
let timer = 0;
let asking = new AbortController(); // ended where another batch, or none, is shown
let key = ""; // the same content sent again starts no second batch

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

function idsGiven() {
  const lines = of("ids").value.split("\n").map((line) => line.trim());
  return [...new Set(lines.filter(Boolean))];
}

function countIds() {
  key = "";
  const [n, most] = [idsGiven().length, Number(of("count").dataset.most)];
  const limit = `One id a line, ${number.format(most)} at most.`;
  const papers = `${number.format(n)} ${n === 1 ? "paper" : "different papers"}.`;
  of("count").textContent = n > most ? `${papers} ${limit}` : n ? papers : limit;
}

async function start(event) {
  event.preventDefault();
  const [n, most] = [idsGiven().length, Number(of("count").dataset.most)];
  if (!n) return show(of("refused"), "Paste the id of one paper at least.");
  if (n > most) {
    return show(of("refused"), `These are ${number.format(n)} papers; one batch takes ${number.format(most)}. Start several.`);
  }
  const body = { seeds: idsGiven(), limit: Number(of("limit").value) };
  if (of("facet").value) body.facet = of("facet").value;
  key ||= Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16)).join("-");
  of("start").disabled = true;
  show(of("refused"), "");
  try {
    const response = await fetch("/v1/batches", {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": key },
      body: JSON.stringify(body),
    });
    if (!response.ok) {
      show(of("refused"), await problemOf(response));
      return;
    }
    const batch = await response.json();
    history.pushState(null, "", `/batch?id=${encodeURIComponent(batch.id)}`);
    key = "";
    open();
    of("watch").focus();
  } catch {
    show(of("refused"), "The service does not answer. Press Start again: no batch is started twice.");
  } finally {
    of("start").disabled = false;
  }
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

function draw(batch) {
  const finished = batch.finished_at !== null;
  of("state").textContent = STATES[batch.state] ?? batch.state;
  document.title = `${Math.floor((100 * batch.done) / batch.queries)} % · Many papers at once · Akin`;
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

function ended(title, text) {
  of("state").textContent = title;
  document.title = `${title} · Many papers at once · Akin`;
  show(of("away"), text);
  of("done").textContent = of("rate").textContent = "";
  for (const id of ["bar", "problems", "kept", "csv", "ndjson", "remove"]) of(id).hidden = true;
}

async function poll() {
  const { signal } = asking;
  let wait = POLL_MS;
  try {
    const response = await fetch(batchPath(batchId()), { signal });
    if (response.ok) {
      const batch = await response.json();
      if (signal.aborted) return;
      draw(batch);
      if (batch.finished_at !== null) return;
    } else if (response.status < 500 && response.status !== 429) {
      if (signal.aborted) return;
      ended(response.status === 404 ? "No such batch" : "The batch cannot be shown", await problemOf(response));
      return;
    } else {
      show(of("away"), `${await problemOf(response)} This page goes on asking.`);
      wait = AWAY_MS;
    }
  } catch {
    if (signal.aborted) return;
    show(of("away"), "The service does not answer. Nothing is lost; this page goes on asking.");
    wait = AWAY_MS;
  }
  timer = setTimeout(poll, wait);
}

async function remove() {
  if (!confirm("The batch is ended, and what it found is removed. Go on?")) return;
  of("remove").disabled = true;
  try {
    const response = await fetch(batchPath(batchId()), { method: "DELETE" });
    if (response.ok) {
      clearTimeout(timer);
      asking.abort();
      ended("Removed", "The batch and its results are gone.");
    } else {
      show(of("away"), await problemOf(response));
    }
  } catch {
    show(of("away"), "The service does not answer; try again in a moment.");
  }
  of("remove").disabled = false;
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
  if (!id) {
    document.title = "Many papers at once · Akin";
    countIds();
    return;
  }
  of("state").textContent = "Looking for the batch";
  of("bar").removeAttribute("value");
  for (const ending of ["csv", "ndjson"]) of(ending).href = `/batch/${encodeURIComponent(id)}.${ending}`;
  for (const part of ["bar", "csv", "ndjson", "remove", "kept"]) of(part).hidden = false;
  of("files").hidden = true;
  show(of("away"), "");
  poll();
}

of("ask").addEventListener("submit", start);
of("ask").addEventListener("input", countIds);
of("remove").addEventListener("click", remove);
addEventListener("popstate", open);
open();
