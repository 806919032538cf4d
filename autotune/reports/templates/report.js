
// Sorts a table by a click on a head, and a list of tasks likewise. The page says all it has to say without this.
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
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const isNumeric = head.classList.contains("n");
      const was = button.dataset.sort;
      const order = was ? (was === "up" ? "down" : "up") : isNumeric ? "down" : "up";
      heads.forEach((other) => {
        other.removeAttribute("aria-sort");
        delete other.firstElementChild.dataset.sort;
      });
      button.dataset.sort = order;
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
}

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
