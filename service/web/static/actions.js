const LOGGED_OUT = "You may be logged out; load this page again.";

// Asks the service, which never redirects what scripts ask: only a login page before it does.
export async function ask(address, options) {
  const answer = await fetch(address, { ...options, redirect: "manual" });
  if (answer.type === "opaqueredirect") throw new Error(LOGGED_OUT);
  return answer;
}

// Forms that change something: sent as JSON to /v1, which no page of another origin may do in a reader's name.
export async function send(form) {
  const { send: method, body, then, done, sure } = form.dataset;
  if (sure && !confirm(sure)) return;
  const said = form.querySelector(".said");
  const button = form.querySelector("button");
  const given = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]));
  const content = method === "DELETE" ? {} : { body: JSON.stringify({ ...JSON.parse(body), ...given }) };
  button.disabled = true;
  said.textContent = "";
  try {
    const answer = await ask(form.action, { method, headers: { "Content-Type": "application/json" }, ...content });
    if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail ?? `The service answered ${answer.status}.`);
    if (then) return location.assign(then);
    form.reset();
    said.textContent = done;
  } catch (error) {
    said.textContent = error instanceof TypeError ? "The service does not answer; try again." : error.message;
  }
  button.disabled = false;
}

// Buttons that copy: the link to this search, the command that asks the same, and its results as a table.
export function bindCopies(main) {
  for (const each of main.querySelectorAll(".copies, [data-copy]")) each.hidden = false;
  for (const button of main.querySelectorAll("[data-copy]")) {
    const words = button.textContent;
    button.addEventListener("click", () => copy(button, words));
  }
}

async function copy(button, words) {
  const what = button.dataset.copy;
  const curl = document.getElementById("curl");
  try {
    const link = document.querySelector("a.stays")?.href ?? location.href;
    await navigator.clipboard.writeText(what === "curl" ? curl.textContent : what === "link" ? link : await table(what));
    button.textContent = "Copied";
  } catch {
    // Where browsers allow no script to copy (pages without TLS), it is marked to be copied by hand.
    if (what === "curl") getSelection().selectAllChildren(curl);
    button.textContent = { curl: "Marked: copy it with your keyboard", link: "Copy it from the address bar" }[what] ?? "Save it instead";
  }
  setTimeout(() => (button.textContent = words), 2500);
}

async function table(address) {
  const answer = await ask(address);
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.text();
}

// A file that is dropped on a page is sent as a library, with what is asked already.
export function drop() {
  const shown = document.documentElement.classList;
  const carriesFile = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!carriesFile(event)) return;
    event.preventDefault();
    shown.add("dropping");
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget || shown.remove("dropping"));
  document.addEventListener("drop", (event) => {
    shown.remove("dropping");
    if (!carriesFile(event)) return;
    event.preventDefault();
    const form = document.querySelector("form.library") ?? made();
    form.elements.file.files = event.dataTransfer.files;
    form.submit();
  });
}

function made() {
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: "/library", enctype: "multipart/form-data", hidden: true });
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (!["cursor", "open"].includes(name)) form.append(field({ type: "hidden", name, value }));
  }
  form.append(field({ type: "file", name: "file" }));
  document.body.append(form);
  return form;
}

function field(given) {
  return Object.assign(document.createElement("input"), given);
}

// The address of a search that a form asks.
export function addressOf(form, given) {
  const params = new URLSearchParams();
  let named = false; // a respect goes for the paper before it
  for (const [name, value] of given) {
    const text = String(value).trim();
    if (["like", "not", "add"].includes(name)) named = Boolean(text);
    if (!text || ["as", "ticked"].includes(name) || (name === "n" && text === "10")) continue;
    if (name === "in" && !named) continue;
    params.append(name === "add" ? given.get("as") : name, text);
  }
  return `${new URL(form.action).pathname}?${params}`;
}

// A sentence is ticked: it is no longer the whole facet that counts, nor can one be like and unlike.
export function tick(form, box) {
  const drop = (name) => form.querySelectorAll(`input[type=hidden][name=${name}]`).forEach((each) => each.remove());
  const [own, other] = box.name === "s" ? ["facet", "unlike"] : ["unlike", "facet"];
  drop(own);
  const pair = document.getElementById((box.name === "s" ? "u" : "s") + box.value);
  if (box.checked && pair?.checked) {
    pair.checked = false;
    drop(other);
  }
}

// As many papers of a library can be ticked as a search takes.
export function atMost(ticks) {
  const boxes = [...ticks.querySelectorAll("[type=checkbox]")];
  const bound = () => {
    const isFull = boxes.filter((box) => box.checked).length >= Number(ticks.dataset.most);
    for (const box of boxes) box.disabled = isFull && !box.checked;
  };
  ticks.addEventListener("change", bound);
  const none = ticks.querySelector("[data-none]");
  none.hidden = false;
  none.addEventListener("click", () => {
    for (const box of boxes) box.checked = false;
    bound();
  });
  addEventListener("pageshow", bound); // after Back the browser may tick boxes again, and late
  bound();
}
