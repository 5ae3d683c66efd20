"use strict";
// Switches protocols, sorts tables, changes the theme. Everything it shows is in the page already.
const data = JSON.parse(document.getElementById("data").textContent);

function show(name) {
  const load = data.loads[name];
  if (!load) return;
  document.querySelectorAll(".switch button").forEach((each) => each.setAttribute("aria-pressed", each.dataset.protocol === name));
  document.querySelectorAll("#network .link").forEach((each, at) => paint(each, load.links[at], load.linkTitles[at]));
  document.querySelectorAll("#network .broker").forEach((each, at) => paint(each, load.brokers[at], load.brokerTitles[at]));
  document.querySelectorAll("[data-fill]").forEach((each) => { each.textContent = load[each.dataset.fill]; });
  document.querySelectorAll(".bar, #protocols tbody tr").forEach((each) => each.classList.toggle("chosen", each.dataset.protocol === name));
  fill("busiest-links", data.busiest[name].links, ["from", "to", "messages", "bytes"]);
  fill("busiest-brokers", data.busiest[name].brokers, ["broker", "visits", "deliveries", "busy"]);
}

function paint(shape, share, title) {
  shape.style.setProperty("--s", share);
  shape.querySelector("title").textContent = title;
}

function fill(id, rows, columns) {
  const body = document.querySelector(`#${id} tbody`);
  body.replaceChildren(...rows.map((row) => {
    const line = document.createElement("tr");
    line.append(...columns.map((name, at) => {
      const cell = document.createElement("td");
      cell.textContent = row[name];
      if (at >= columns.length - (columns[0] === "from" ? 2 : 3)) cell.className = "number";
      return cell;
    }));
    return line;
  }));
}

function sort(button) {
  const heading = button.closest("th"), table = heading.closest("table"), body = table.tBodies[0];
  const at = [...heading.parentNode.children].indexOf(heading), number = heading.classList.contains("number");
  const descending = heading.getAttribute("aria-sort") ? heading.getAttribute("aria-sort") === "ascending" : number;
  const by = (row) => (number ? Number(row.cells[at].dataset.by) : row.cells[at].dataset.by);
  const rows = [...body.rows].sort((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0) * (descending ? -1 : 1));
  heading.parentNode.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  body.append(...rows);
}

document.querySelectorAll(".switch button").forEach((each) => each.addEventListener("click", () => {
  history.replaceState(null, "", `#${each.dataset.protocol}`);
  show(each.dataset.protocol);
}));
document.querySelectorAll("table.sorted th button").forEach((each) => each.addEventListener("click", () => sort(each)));
document.querySelector(".theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
show(decodeURIComponent(location.hash.slice(1)) in data.loads ? decodeURIComponent(location.hash.slice(1)) : data.first);
