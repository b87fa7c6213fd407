// The page is whole without any script; what is here only makes it quicker to use.
// Nothing is drawn here: the same page is fetched from the service and its parts are put in place.
import { find } from "./find.js";
import { light } from "./light.js";
import { take } from "./take.js";

const main = document.getElementById("main");
const told = document.getElementById("told");
const SLOW_MS = 150;
const BUSY = "The service is too busy now; what you see is from before.";
let asking = null;
let shown = location.pathname + location.search;
// Pages are put in place after the browser has tried to scroll.
history.scrollRestoration = "manual";

// Goes to a page of this service: `keep` where the reader stays at what they were doing.
async function go(address, { push = true, keep = false, top = 0 } = {}) {
  asking?.abort();
  const mine = (asking = new AbortController());
  const bar = setTimeout(() => busy(true), SLOW_MS);
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" }, signal: mine.signal });
    if (!answer.headers.get("content-type")?.startsWith("text/html")) return failed(address, BUSY);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine.signal.aborted) return;
    if (answer.status >= 500 || answer.status === 429) {
      return failed(address, page.querySelector(".problem .lead")?.textContent);
    }
    if (push) {
      history.replaceState({ top: scrollY }, "");
      history.pushState({}, "", address);
    }
    shown = location.pathname + location.search;
    show(page, keep);
    if (!keep) scrollTo(0, top);
  } catch (error) {
    if (error.name === "AbortError") return;
    failed(address);
  } finally {
    clearTimeout(bar);
    if (asking === mine) busy(false);
  }
}

function show(page, keep) {
  const focused = keep && document.activeElement?.id;
  const query = document.getElementById("asked");
  const scrolled = query?.scrollTop ?? 0;
  const open = keep ? [...main.querySelectorAll(".asked details[open]")].map((each) => each.className) : [];
  document.title = page.title;
  const box = document.querySelector(".top .find");
  const newBox = page.querySelector(".top .find");
  if (box && newBox) {
    if (!keep) box.replaceWith(newBox);
  } else if (newBox) {
    document.querySelector(".top .name").after(newBox);
  } else {
    box?.remove();
  }
  main.replaceChildren(...page.getElementById("main").childNodes);
  for (const name of open) main.querySelector(`.asked details.${name.split(" ")[0]}`)?.setAttribute("open", "");
  begin();
  if (keep) {
    const asked = document.getElementById("asked");
    if (asked) asked.scrollTop = scrolled;
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  } else {
    (document.getElementById("results-title") ?? main).focus({ preventScroll: true });
  }
  const title = document.getElementById("results-title") ?? main.querySelector("h1");
  const problem = main.querySelector("[role=alert]");
  told.textContent = (problem ?? title)?.textContent.trim() ?? "";
}

// One card is opened: of the page that shows it so, its drawing alone is put in place.
async function open(link) {
  const card = link.closest(".card");
  try {
    const answer = await fetch(link.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const why = page.querySelector(`#${card.id} .why`);
    if (why?.localName !== "details") return location.assign(link.href);
    link.replaceWith(why);
    why.querySelector("summary").focus();
  } catch {
    failed(link.href);
  }
}

function busy(on) {
  document.querySelector(".loading")?.remove();
  document.getElementById("results")?.setAttribute("aria-busy", String(on));
  if (!on) return;
  const bar = document.createElement("div");
  bar.className = "loading";
  document.body.append(bar);
  told.textContent = "Looking …";
}

// The service does not answer, or is too busy to: what is on the page stays, and can be asked again.
function failed(address, why = "The service does not answer; what you see is from before.") {
  main.querySelector(".offline")?.remove();
  const notice = document.createElement("div");
  notice.className = "notice offline";
  notice.setAttribute("role", "alert");
  const words = document.createElement("p");
  words.textContent = `${why} `;
  const again = document.createElement("button");
  again.type = "button";
  again.textContent = "Try again";
  again.addEventListener("click", () => go(address));
  words.append(again);
  notice.append(words);
  (document.getElementById("results") ?? main).prepend(notice);
  notice.scrollIntoView({ block: "nearest" });
}

function addressOf(form, pressed) {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form, pressed)) {
    const text = String(value).trim();
    if (text && !(name === "n" && text === "10")) asked.append(name, text);
  }
  return `${new URL(form.action).pathname}?${asked}`;
}

function ours(link) {
  return link && link.origin === location.origin && link.pathname === "/" && link.search && !link.hash && !link.download;
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href]");
  if (link instanceof HTMLAnchorElement && link.matches("a.why")) {
    event.preventDefault();
    open(link);
  } else if (link instanceof HTMLAnchorElement && ours(link)) {
    event.preventDefault();
    go(link.href, { keep: Boolean(link.closest(".asked")) });
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || new URL(form.action).pathname !== "/") return;
  event.preventDefault();
  go(addressOf(form, event.submitter), { keep: Boolean(form.closest(".asked")) });
});

// A sentence is ticked: it is no longer the whole facet that counts, nor can one be like and unlike.
document.addEventListener("change", (event) => {
  const box = event.target;
  const form = box.form;
  if (form?.id !== "ask" || box.type !== "checkbox") return;
  for (const other of form.querySelectorAll(`input[type=hidden][name=${box.name === "s" ? "facet" : "unlike"}]`)) other.remove();
  const pair = document.getElementById((box.name === "s" ? "u" : "s") + box.value);
  if (box.checked && pair?.checked) {
    pair.checked = false;
    for (const other of form.querySelectorAll(`input[type=hidden][name=${box.name === "s" ? "unlike" : "facet"}]`)) other.remove();
  }
  go(addressOf(form), { keep: true });
});

// Sentences over which text is selected are chosen, as in a marked-up print.
document.addEventListener("pointerup", () => {
  const selected = getSelection();
  const list = main.querySelector(".choices");
  if (!list || !selected || selected.isCollapsed || !list.contains(selected.anchorNode) || !list.contains(selected.focusNode)) return;
  const boxes = [...list.querySelectorAll(".choice")]
    .filter((each) => selected.containsNode(each.querySelector(".text"), true))
    .map((each) => each.querySelector("[name=s]:enabled"))
    .filter((box) => box && !box.checked);
  if (!boxes.length) return;
  selected.removeAllRanges();
  const stay = (event) => event.preventDefault();
  addEventListener("click", stay, { capture: true });
  setTimeout(() => {
    removeEventListener("click", stay, { capture: true });
    for (const box of boxes) box.checked = true;
    boxes[0].dispatchEvent(new Event("change", { bubbles: true }));
  });
});

addEventListener("popstate", (event) => {
  if (location.pathname + location.search !== shown) go(location.href, { push: false, top: event.state?.top ?? 0 });
});

function begin() {
  for (const box of document.querySelectorAll("[data-find]")) find(box, go, addressOf);
  light(main);
  take(main);
}

begin();
