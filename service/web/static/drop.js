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
