// Titles below a box while someone types: the pattern of a combobox with a list (WAI-ARIA).
const WAIT_MS = 80;
const MAX_SHOWN = 8;
const MAX_HEIGHT = 384; // CSS pixels of the list, and of the least that is worth opening
const MIN_HEIGHT = 200;
const GAP = 8;
let boxes = 0;

// A name in marks that keep its direction of writing from its neighbours.
const apart = (name) => (/[^\0-\x7f]/.test(name) ? `\u2068${name}\u2069` : name);

export function suggest(box, go) {
  if (box.getAttribute("role") === "combobox") return;
  const list = document.createElement("ul");
  list.className = "titles";
  list.id = `titles-${++boxes}`;
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Papers with such a title");
  box.after(list);
  for (const [name, value] of Object.entries({
    role: "combobox",
    "aria-autocomplete": "list",
    "aria-controls": list.id,
    "aria-expanded": "false",
  })) {
    box.setAttribute(name, value);
  }
  let timer;
  let asking;
  let at = -1;

  // Whoever goes through the titles keeps those that are shown: no later ones come.
  function forget() {
    clearTimeout(timer);
    asking?.abort();
  }

  function close() {
    forget();
    list.hidden = true;
    at = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  }

  // Above the box where there is more room, and no taller than what can be seen there.
  function place() {
    list.style.maxHeight = `${MAX_HEIGHT}px`;
    const wanted = list.offsetHeight;
    let { above, below } = room(box);
    if (Math.max(above, below) < Math.min(wanted, MIN_HEIGHT)) {
      box.scrollIntoView({ block: "center" });
      ({ above, below } = room(box));
    }
    const up = below < wanted && above > below;
    list.classList.toggle("up", up);
    list.style.maxHeight = `${Math.floor(Math.min(up ? above : below, MAX_HEIGHT))}px`;
  }

  function mark(number) {
    const all = [...list.children];
    at = all.length ? (number + all.length) % all.length : -1;
    all.forEach((each, i) => each.setAttribute("aria-selected", String(i === at)));
    all[at]?.scrollIntoView({ block: "nearest" });
    if (at >= 0) box.setAttribute("aria-activedescendant", all[at].id);
  }

  function choose(id) {
    close();
    if (box.dataset.find === "add") {
      box.value = id;
      box.form.requestSubmit();
    } else {
      box.value = "";
      const kept = [...box.form.querySelectorAll("[type=hidden]")].map((each) => [each.name, each.value]);
      go(`/?${new URLSearchParams([["paper", id], ...kept])}`);
    }
  }

  function show(papers) {
    list.replaceChildren(
      ...papers.map((paper, i) => {
        const item = document.createElement("li");
        item.id = `${list.id}-${i}`;
        item.setAttribute("role", "option");
        item.setAttribute("aria-selected", "false");
        const title = document.createElement("span");
        title.className = "title";
        title.dir = "auto";
        title.textContent = title.title = paper.title || paper.id;
        const about = document.createElement("span");
        about.className = "about";
        about.textContent = [paper.authors[0], paper.venue, paper.year].filter(Boolean).map(apart).join(" · ");
        item.append(title, about);
        item.addEventListener("pointerdown", (event) => {
          event.preventDefault();
          forget();
        });
        item.addEventListener("click", () => choose(paper.id));
        return item;
      }),
    );
    at = -1;
    box.removeAttribute("aria-activedescendant");
    list.hidden = !papers.length;
    if (papers.length) place();
    box.setAttribute("aria-expanded", String(!list.hidden));
  }

  async function ask() {
    asking?.abort();
    asking = new AbortController();
    const typed = box.value.trim();
    if (typed.length < 2) return close();
    try {
      const params = new URLSearchParams({ prefix: typed.slice(0, 200), limit: MAX_SHOWN });
      const answer = await fetch(`/v1/papers/suggest?${params}`, { signal: asking.signal });
      const papers = answer.ok ? (await answer.json()).results : [];
      if (document.activeElement === box) show(papers);
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  }

  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  });
  box.addEventListener("blur", close);
  box.form.addEventListener("submit", close);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    } else if (list.hidden) {
      if (event.key === "ArrowDown") ask();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      forget();
      mark(event.key === "ArrowDown" ? at + 1 : at < 0 ? -1 : at - 1);
    } else if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      list.children[at].click();
    }
  });
}

// CSS pixels above and below a box that are in sight: of the window, and of each part around it that scrolls.
function room(box) {
  let [top, bottom] = [0, window.visualViewport?.height ?? innerHeight];
  for (let part = box.parentElement; part && part !== document.body; part = part.parentElement) {
    if (getComputedStyle(part).overflowY === "visible") continue;
    const shown = part.getBoundingClientRect();
    [top, bottom] = [Math.max(top, shown.top), Math.min(bottom, shown.bottom)];
  }
  const at = box.getBoundingClientRect();
  return { above: at.top - top - GAP, below: bottom - at.bottom - GAP };
}
