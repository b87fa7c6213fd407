// What matches what: a sentence that is pointed at, or has the focus, lights up those that it meets.
let matches; // by number of a query sentence: [sentence of a card, level]
let choices; // by number: the query sentence
let lit = [];

export function highlight(main) {
  matches = new Map();
  choices = new Map([...main.querySelectorAll(".choice")].map((each) => [each.dataset.q, each]));
  lit = [];
  for (const sentence of main.querySelectorAll(".sentence[data-m]")) {
    for (const [number, level] of pairs(sentence)) {
      if (!matches.has(number)) matches.set(number, []);
      matches.get(number).push([sentence, level]);
    }
  }
  // Sentences are reached by arrows once one of their abstract has the focus.
  for (const abstract of main.querySelectorAll(".abstract")) {
    abstract.querySelectorAll(".sentence").forEach((each, i) => (each.tabIndex = i ? -1 : 0));
  }
}

function pairs(sentence) {
  return (sentence.dataset.m ?? "").split(" ").filter(Boolean).map((each) => each.split(":"));
}

function clear() {
  for (const [element, names] of lit) element.classList.remove(...names);
  document.documentElement.classList.remove("lighting");
  lit = [];
}

function add(element, ...names) {
  if (!element) return;
  element.classList.add(...names);
  lit.push([element, names]);
}

function point(target) {
  const there = target.closest?.("[data-q], [data-s]");
  if (!there || target.closest("[data-seed]")) return clear();
  const { q, s } = there.dataset;
  const card = there.closest(".card, .entry");
  if (there.classList.contains("here")) return;
  clear();
  if (s === undefined) {
    if (!matches.has(q)) return;
    document.documentElement.classList.add("lighting");
    add(choices.get(q), "here");
    for (const [sentence, level] of matches.get(q)) add(sentence, "lit", `l${level}`);
    return;
  }
  const sentences = card?.querySelectorAll(`.sentence[data-s="${Number(s)}"]`) ?? [];
  const met = sentences.length ? pairs(sentences[0]).filter(([number]) => q === undefined || number === q) : [];
  if (met.length) document.documentElement.classList.add("lighting");
  for (const sentence of sentences) {
    add(sentence, "here", "lit", `l${Math.max(0, ...met.map(([, level]) => Number(level)))}`);
  }
  for (const [number, level] of met) add(choices.get(number), "lit", `l${level}`);
}

document.addEventListener("pointerover", (event) => point(event.target));
document.addEventListener("focusin", (event) => point(event.target));
document.addEventListener("focusout", clear);

document.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const sentence = event.target.closest?.(".abstract .sentence");
  if (!step || !sentence) return;
  const all = [...sentence.closest(".abstract").querySelectorAll(".sentence")];
  const next = all[all.indexOf(sentence) + step];
  if (!next) return;
  event.preventDefault();
  sentence.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});
