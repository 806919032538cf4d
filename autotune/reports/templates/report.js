
// Tools to work in the page; it says all it has to say without them.
const element = (tag, attributes = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
};
const button = (className, text, act) => {
  const made = element("button", { type: "button", className }, text);
  made.addEventListener("click", () => act(made));
  return made;
};

// Sorts a table by a click on a head, and a list of tasks likewise; hides columns; chooses tasks.
for (const list of document.querySelectorAll("[data-sortable]")) {
  const isTable = list.tagName === "TABLE";
  const heads = [...(isTable ? list.tHead.rows[0].cells : list.querySelector(".heads").children)];
  const home = isTable ? list.tBodies[0] : list;
  const rows = isTable ? [...home.rows] : [...list.querySelectorAll(":scope > details")];
  const cells = new Map(rows.map((row) => [row, isTable ? row.cells : row.querySelector("summary").children]));
  const key = (row, column) => {
    const cell = cells.get(row)[column];
    if (!heads[column].classList.contains("n")) return cell.textContent.trim();
    return "value" in cell.dataset ? Number(cell.dataset.value) : null;
  };
  heads.forEach((head, column) => {
    const sorter = element("button", { type: "button" }, ...head.childNodes);
    head.append(sorter);
    sorter.addEventListener("click", () => {
      const isNumeric = head.classList.contains("n");
      const was = sorter.dataset.sort;
      const order = was ? (was === "up" ? "down" : "up") : isNumeric ? "down" : "up";
      heads.forEach((other) => {
        other.removeAttribute("aria-sort");
        delete other.firstElementChild.dataset.sort;
      });
      sorter.dataset.sort = order;
      if (isTable) head.setAttribute("aria-sort", order === "up" ? "ascending" : "descending");
      const sign = order === "up" ? 1 : -1;
      rows.sort((a, b) => {
        const [x, y] = [key(a, column), key(b, column)];
        if (x === null || y === null) return (x === null) - (y === null);
        return sign * (isNumeric ? x - y : x.localeCompare(y, "en", { numeric: true }));
      });
      home.append(...rows);
    });
  });
  const tools = element("div", { className: "tools" });
  if (!isTable) {
    const field = element("input", { type: "search", placeholder: "Choose tasks: matmul" });
    field.setAttribute("aria-label", "Choose tasks by words of their names and families");
    const all = `${rows.length} task${rows.length === 1 ? "" : "s"}`;
    const count = element("output", {}, all);
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/);
      rows.forEach((row) => {
        const said = row.querySelector("summary").textContent.toLowerCase();
        row.hidden = !words.every((word) => said.includes(word));
      });
      const left = rows.filter((row) => !row.hidden).length;
      count.textContent = left === rows.length ? all : `${left} of ${all}`;
    });
    tools.append(field, count);
  }
  const widths = getComputedStyle(list).getPropertyValue("--widths").trim().split(/ (?![^(]*\))/);
  const boxes = heads.map((head, column) => {
    const box = element("input", { type: "checkbox", checked: true, disabled: column === 0 });
    box.addEventListener("change", () => {
      [head, ...rows.map((row) => cells.get(row)[column])].forEach((cell) => (cell.hidden = !box.checked));
      if (!isTable) list.style.setProperty("--shown", widths.filter((_, each) => boxes[each].checked).join(" "));
    });
    return box;
  });
  const labels = heads.map((head, column) => element("label", {}, boxes[column], ` ${head.textContent.trim()}`));
  if (heads.length > 2) tools.append(element("details", {}, element("summary", {}, "Columns"), ...labels));
  if (tools.childNodes.length) (isTable ? list.parentElement : list).before(tools);
}

// Copies a command, or a script.
const copy = async (text, from) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  from.textContent = "Copied";
  setTimeout(() => (from.textContent = "Copy"), 1500);
};
for (const block of document.querySelectorAll("pre")) {
  const text = block.textContent;
  if (!block.classList.contains("commands")) {
    block.prepend(button("copy", "Copy", (from) => copy(text, from)));
    continue;
  }
  const lines = text.replace(/\n$/, "").split("\n").map((line) => {
    const isCommand = line.trim() && !line.startsWith("#");
    return element("div", {}, ...(isCommand ? [button("copy", "Copy", (from) => copy(line, from))] : []), line);
  });
  block.replaceChildren(...lines);
}

// Shows a picture as large as the window: the wheel and the buttons zoom, dragging moves.
const stage = element("dialog", { className: "stage" });
stage.setAttribute("aria-label", "Enlarged picture");
let picture = null;
let home = null;
let whole = [];
let view = [];
const see = (box) => {
  view = box;
  picture.setAttribute("viewBox", box.join(" "));
};
const zoom = (factor, [x, y] = [0.5, 0.5]) => {
  const [left, top, width, height] = view;
  see([left + x * width * (1 - factor), top + y * height * (1 - factor), width * factor, height * factor]);
};
const enlarge = (svg) => {
  picture = svg;
  home = document.createComment("");
  svg.replaceWith(home);
  stage.append(svg);
  whole = svg.getAttribute("viewBox").split(/[ ,]+/).map(Number);
  view = whole;
  stage.showModal();
};
stage.append(
  element(
    "div",
    {},
    button("", "Zoom in", () => zoom(0.8)),
    button("", "Zoom out", () => zoom(1.25)),
    button("", "Whole", () => see(whole)),
    button("", "Close", () => stage.close()),
  ),
);
stage.addEventListener("close", () => {
  see(whole);
  home.replaceWith(picture);
  picture = null;
});
stage.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const box = picture.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 0.9 : 1.1, [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height]);
  },
  { passive: false },
);
stage.addEventListener("pointermove", (event) => {
  if (!event.buttons || event.target.closest("button")) return;
  const box = picture.getBoundingClientRect();
  const [left, top, width, height] = view;
  const scale = Math.max(width / box.width, height / box.height);
  see([left - event.movementX * scale, top - event.movementY * scale, width, height]);
});
document.body.append(stage);
for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector("svg");
  svg.addEventListener("click", () => picture || enlarge(svg));
  figure.querySelector("figcaption").append(button("enlarge", "Enlarge", () => enlarge(svg)));
}

// Light, dark, or what the system has.
const schemes = ["as the system", "light", "dark"];
const scheme = button("scheme", "", () => {
  const next = schemes[(schemes.indexOf(document.documentElement.dataset.scheme ?? schemes[0]) + 1) % schemes.length];
  if (next === schemes[0]) delete document.documentElement.dataset.scheme;
  else document.documentElement.dataset.scheme = next;
  scheme.textContent = `Colours: ${next}`;
});
scheme.textContent = `Colours: ${schemes[0]}`;
document.querySelector("header").append(scheme);

// What is printed shows every task; scripts stay closed.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll(".tasks > details:not([open])")];
  opened.forEach((task) => (task.open = true));
});
addEventListener("afterprint", () => opened.forEach((task) => (task.open = false)));

// A link to a task opens it.
const open = () => document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", "");
addEventListener("hashchange", open);
open();
