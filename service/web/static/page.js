// The page works without any script; this only makes it quicker to use.
// It renders nothing: it fetches the same page from the service and replaces the parts that changed.
import { addressOf, atMost, bindCopies, drop, send, tick } from "./actions.js";
import { highlight } from "./highlight.js";
import { suggest } from "./suggest.js";

const main = document.getElementById("main");
const statusLine = document.getElementById("status");
const SLOW_MS = 150;
const LONGEST = 60_000; // characters of an address; servers refuse lines of about 64 kB
const TOO_LONG = "This text is too long for a link; paste only the abstract.";
const BUSY = "The service is too busy now; you still see the earlier results.";
const opening = new Set(); // addresses of the cards that are asked for
const here = () => location.pathname + location.search;
let asking = null;
let shown = here();
let named = shown; // by the address bar, which Back and Forward change before the page is there
// Changes of its entry in the history would make Back forget what was sent for a plain page.
const isPlain = document.body.matches("[data-plain]");
// Other pages are put in place after the browser has tried to scroll.
if (!isPlain) history.scrollRestoration = "manual";

// Fetches a page of this service for `place`; a failure is told, with a button that does `again`.
async function load(address, place, again, signal) {
  const bar = setTimeout(() => busy(true), SLOW_MS);
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" }, redirect: "manual", signal });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (signal?.aborted) return;
    const isOurs = page.getElementById("main");
    // What stands before the service, or the service itself, could not read the address.
    if (!isOurs && [400, 414, 431].includes(answer.status)) notice(TOO_LONG);
    else if (answer.status >= 500 || answer.status === 429) failed(again, page.querySelector(".problem .lead")?.textContent ?? BUSY);
    else if (isOurs) place(page);
    else if (address === location.href) location.reload(); // where it has a #, assigning it would only scroll
    else location.assign(address); // a login page, or what else stands before the service
  } catch (error) {
    if (error.name !== "AbortError") failed(again);
  } finally {
    clearTimeout(bar);
    if (!signal?.aborted) busy(false);
  }
}

// Goes to a page of this service: `keep` where the reader stays at what they were doing.
// Fields that differ from `sent`, what was typed in them since or not asked yet, stay as they are.
// `to` is what to scroll to, where it is there.
function go(address, { push = true, keep = false, top = 0, to = "", sent = new Map() } = {}) {
  asking?.abort();
  if (isPlain) return location.assign(address);
  if (address.length > LONGEST) return notice(TOO_LONG);
  asking = new AbortController();
  const place = (page) => {
    if (push) {
      leave();
      history.pushState({}, "", address);
    }
    shown = named = here();
    show(page, keep, sent);
    const target = document.getElementById(to);
    if (target) target.scrollIntoView();
    else if (!keep) scrollTo(0, top);
  };
  load(address, place, () => go(address, { push, keep, top, to, sent }), asking.signal);
}

// What is typed or chosen in `part`, on the left or a form there, by the ids of its fields.
function typed(part) {
  const fields = [...part.querySelectorAll("input[id]:not([type=checkbox]), textarea, .add select[id]")];
  const given = (each) => each.defaultValue ?? ([...each.options].find((one) => one.defaultSelected) ?? each.options[0]).value;
  return new Map(fields.filter((each) => each.value !== given(each)).map((each) => [each.id, each.value]));
}

function show(page, keep, sent) {
  const at = document.activeElement;
  const home = at?.closest("[data-home]")?.dataset.home;
  const query = document.getElementById("query");
  const unsent = keep ? [...typed(query)].filter(([id, value]) => value !== sent.get(id)) : [];
  const scrolled = query?.scrollTop ?? 0;
  const open = keep ? [...main.querySelectorAll(".query details[open]")].map((each) => each.className) : [];
  document.title = page.title;
  const box = document.querySelector(".top .find");
  const newBox = page.querySelector(".top .find");
  if (box && newBox) {
    if (!keep) box.replaceWith(newBox);
    else renew(box, newBox, "[type=hidden]");
  } else if (newBox) {
    document.querySelector(".top .name").after(newBox);
  } else {
    box?.remove();
  }
  document.getElementById("skips").replaceWith(page.getElementById("skips"));
  const selected = keep && selection();
  main.replaceChildren(...page.getElementById("main").childNodes);
  if (selected) select(...selected);
  for (const name of open) main.querySelector(`.query details.${name.split(" ")[0]}`)?.setAttribute("open", "");
  begin();
  if (keep) {
    const panel = document.getElementById("query");
    if (panel) panel.scrollTop = scrolled;
    for (const [id, value] of unsent) {
      const field = document.getElementById(id);
      if (field) field.value = value;
    }
    // What had the focus may be gone, as a filter that was taken away: then its group has it.
    const next = at === document.body ? [] : [at.id, home, "results-title"].map((id) => document.getElementById(id));
    next.find(Boolean)?.focus({ preventScroll: true });
  } else {
    (document.getElementById("results-title") ?? main).focus({ preventScroll: true });
  }
  const title = document.getElementById("results-title") ?? main.querySelector("h1");
  const problem = main.querySelector("[role=alert]");
  statusLine.textContent = (problem ?? title)?.textContent.trim() ?? "";
}

// The sentences of the query over which text is selected, and where in the first and the last of them.
function selection() {
  const all = getSelection();
  const range = all.isCollapsed ? null : all.getRangeAt(0);
  const said = [...main.querySelectorAll(".choice")].filter((each) => range?.intersectsNode(each.querySelector(".text")));
  if (!said.length) return null;
  const place = (choice, node, at, otherwise) => (choice.querySelector(".text").firstChild === node ? at : otherwise);
  const last = said.at(-1);
  return [said, place(said[0], range.startContainer, range.startOffset, 0), place(last, range.endContainer, range.endOffset)];
}

// Selects the same text again, in the page that replaced it: it can be copied.
function select(said, from, to) {
  const texts = [said[0], said.at(-1)].map((each) => main.querySelector(`.choice[data-q="${each.dataset.q}"] .text`)?.firstChild);
  if (texts.every(Boolean)) getSelection().setBaseAndExtent(texts[0], from, texts[1], to ?? texts[1].length);
}

// What of `box` is called so is that of `newBox`; what is typed in it stays.
function renew(box, newBox, selector) {
  for (const each of box.querySelectorAll(selector)) each.remove();
  box.prepend(...newBox.querySelectorAll(selector));
}

// One card is opened: of the page that shows it so, its drawing alone is put in place.
function open(link) {
  part(link, link.href, `#${link.closest(".card").id} details.why`, (why) => {
    link.replaceWith(why);
    why.querySelector("summary").focus();
    hold(why.closest(".card"), true);
  });
}

// A row of the table is opened to its card, or closed again.
function expand(link) {
  const row = link.closest("tr");
  const below = row.nextElementSibling;
  if (below?.matches(".whole")) {
    below.remove();
    link.setAttribute("aria-expanded", "false");
    hold(row, false);
    return;
  }
  const address = new URL(link.href);
  address.searchParams.set("open", row.id.split("-")[1]);
  part(link, address.href, `#${row.id} + .whole`, (whole) => {
    row.after(whole);
    link.setAttribute("aria-expanded", "true");
    hold(row, true);
  });
}

// The address has what was opened last, so that Back, a reload and a copied address show it again.
function hold(entry, isOpen) {
  const rank = entry.id.split("-")[1];
  const address = new URL(location.href);
  if (isPlain || here() !== shown || (address.searchParams.get("open") === rank) === isOpen) return;
  if (isOpen) address.searchParams.set("open", rank);
  else address.searchParams.delete("open");
  history.replaceState(history.state, "", address);
  shown = named = here();
}

addEventListener("toggle", ({ target }) => target.matches?.("details.why") && hold(target.closest(".card"), target.open), true);

// What is asked for already is not asked for again, as by a double click; where `link` is gone, nothing opens.
async function part(link, address, selector, place) {
  if (opening.has(address)) return;
  opening.add(address);
  const found = (page) => {
    if (!link.isConnected) return;
    const wanted = page.querySelector(selector);
    if (!wanted) return location.assign(address);
    main.querySelector(".offline")?.remove();
    place(wanted);
    highlight(main);
  };
  await load(address, found, () => part(link, address, selector, place));
  opening.delete(address);
}

function busy(on) {
  document.querySelector(".loading")?.remove();
  document.getElementById("results")?.setAttribute("aria-busy", String(on));
  if (!on) return;
  const bar = document.createElement("div");
  bar.className = "loading";
  document.body.append(bar);
  statusLine.textContent = "Searching …";
}

// The service does not answer, or is too busy to: what is on the page stays, and can be asked again.
function failed(ask, why = "The service does not answer; you still see the earlier results.") {
  const again = document.createElement("button");
  again.type = "button";
  again.textContent = "Try again";
  again.addEventListener("click", ask);
  notice(`${why} `, again);
}

function notice(...said) {
  main.querySelector(".offline")?.remove();
  const box = document.createElement("div");
  box.className = "notice offline";
  box.setAttribute("role", "alert");
  const words = document.createElement("p");
  words.append(...said);
  box.append(words);
  (document.getElementById("results") ?? main).prepend(box);
  box.scrollIntoView({ block: "nearest" });
}

function ours(link) {
  if (!link || link.origin !== location.origin || link.pathname !== "/" || !link.search || link.download) return false;
  // Without scripts a page of results opens at them; links within this page begin with their mark.
  return !link.hash || (link.hash === "#results" && !link.getAttribute("href").startsWith("#"));
}

// What is asked from among the results is shown where they are: in one column the whole query stands above them.
function went(link) {
  const keep = Boolean(link.closest(".query, .summary"));
  const to = !keep && link.closest(".results") && matchMedia("(max-width: 60rem)").matches ? "results" : "";
  go(link.pathname + link.search, { keep, to });
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href]");
  if (link?.matches(".timeline .year")) {
    event.preventDefault();
    go(link.getAttribute("href")); // of a drawing, whose links have no pathname
  } else if (link instanceof HTMLAnchorElement && link.matches("a.why, a.expand")) {
    event.preventDefault();
    (link.matches(".why") ? open : expand)(link);
  } else if (link instanceof HTMLAnchorElement && ours(link)) {
    event.preventDefault();
    went(link);
  } else if (link?.getAttribute("href").startsWith("#")) {
    leave(); // for another place within the page
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("[data-send]")) {
    event.preventDefault();
    send(form);
    return;
  }
  if (event.defaultPrevented || new URL(form.action).pathname !== "/" || form.matches("[data-plain]")) return;
  event.preventDefault();
  go(addressOf(form, new FormData(form, event.submitter)), { keep: Boolean(form.closest(".query")), sent: typed(form) });
});

// A title that is only begun to be typed is no paper yet.
function askAnew(form) {
  const fields = new FormData(form);
  fields.set("add", "");
  const sent = typed(form);
  for (const id of ["like", "as", "in"]) sent.delete(id);
  go(addressOf(form, fields), { keep: true, sent });
}

document.addEventListener("change", (event) => {
  const box = event.target;
  if (box.form?.id !== "ask") return;
  if (box.type === "checkbox") tick(box.form, box);
  else if (!box.closest(".seeds li")) return;
  askAnew(box.form);
});

// Sentences over which text is selected are chosen, as in a marked-up print.
let before = "";
document.addEventListener("pointerdown", () => (before = String(getSelection())));
document.addEventListener("pointerup", (event) => {
  const selected = getSelection();
  if (event.button || before === String(selected)) return;
  const list = main.querySelector(".choices");
  if (!list || !selected || selected.isCollapsed || !list.contains(selected.anchorNode) || !list.contains(selected.focusNode)) return;
  const boxes = (selection()?.[0] ?? []).map((each) => each.querySelector("[name=s]:enabled")).filter((box) => box && !box.checked);
  if (!boxes.length) return;
  const stay = (event) => event.preventDefault();
  addEventListener("click", stay, { capture: true });
  setTimeout(() => {
    removeEventListener("click", stay, { capture: true });
    for (const box of boxes) {
      box.checked = true;
      tick(box.form, box);
    }
    askAnew(boxes[0].form);
  });
});

// Who leaves the page and comes back is where they were. An address whose page did not come keeps its own place.
function leave() {
  if (here() === shown && !isPlain) history.replaceState({ ...history.state, top: scrollY }, "");
}

// A page that is loaded again has the state from before it was left.
addEventListener("pagehide", () => {
  leave();
  sessionStorage.setItem("left", scrollY);
});

// Another place within the page: where it was left, or what its mark names.
function within(top) {
  if (top === undefined) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  else scrollTo(0, top);
}

addEventListener("popstate", (event) => {
  const isBack = named !== shown && here() === shown; // rather than at another place within the page
  named = here();
  if (named !== shown) return go(location.href, { push: false, top: event.state?.top ?? 0 });
  if (!isBack) return within(event.state?.top);
  asking?.abort();
  busy(false);
  main.querySelector(".offline")?.remove();
});

function begin() {
  for (const box of document.querySelectorAll("[data-find]")) suggest(box, go);
  highlight(main);
  bindCopies(main);
  for (const ticks of main.querySelectorAll("[data-most]")) atMost(ticks);
}

drop();
begin();
const isReload = performance.getEntriesByType("navigation")[0]?.type === "reload";
const top = isReload ? Number(sessionStorage.getItem("left")) : history.state?.top;
if (top !== undefined) scrollTo(0, top);
