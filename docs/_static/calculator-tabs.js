// The tabs of the calculator's page, and the one that says how many GPUs a job needs.
(function () {
  "use strict";
  var page = document.querySelector(".calculator"), source = document.getElementById("calc-plans");
  if (!page || !source || typeof tunerPlans !== "function") return;
  var data = JSON.parse(source.textContent), plans = tunerPlans(data), form = page.querySelector(".calc-plan-form");
  var words = JSON.parse(document.getElementById("calc-data").textContent).words;

  function one(selector) { return page.querySelector(selector); }
  function each(selector, act) { Array.prototype.forEach.call(page.querySelectorAll(selector), act); }
  function element(name, text, attributes) {
    var made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (var key in attributes || {}) made.setAttribute(key, attributes[key]);
    return made;
  }
  function told(name, values) {
    return words[name].replace(/\{(\w+)\}/g, function (all, key) { return values[key]; });
  }

  // -- what the form says ------------------------------------------------------------------------

  function sliders(act) { ["prompts", "response"].forEach(function (name) { act(name, form.elements[name]); }); }

  function answers() {
    var given = { model: form.elements.model.value, cards: [], prices: {} };
    sliders(function (name, slider) { given[name] = data[name][slider.value]; });
    each(".calc-card", function (row) {
      var box = row.querySelector("[type=checkbox]"), price = row.querySelector("[type=number]");
      if (box.checked) given.cards.push(box.value);
      given.prices[box.value] = price.value;
    });
    return plans.said(given);
  }

  function fill(said) {
    form.elements.model.value = said.model;
    sliders(function (name, slider) { slider.value = data[name].indexOf(said[name]); });
    each(".calc-card", function (row) {
      var box = row.querySelector("[type=checkbox]"), price = said.prices[box.value];
      box.checked = said.cards.indexOf(box.value) >= 0;
      row.querySelector("[type=number]").value = price === undefined ? "" : price;
    });
    show();
  }

  // -- the answer ----------------------------------------------------------------------------------

  function step(row) {
    return row.low ? told("plan:around", { number: row.step, low: row.low, high: row.high }) : row.step;
  }

  function sentences(all, said) {
    var least = plans.fewest(all);
    if (!said.cards.length) return [words["plan:no_card"]];
    if (!all.length) return [words["plan:not_planned"]];
    if (!least) return [words["plan:none"]];
    var values = { phase: least.fullest };
    for (var name in least) values[name] = least[name];
    values.low = least.low || least.step;
    values.high = least.high || least.step;
    return [
      told(least.nodes === 1 ? "plan:fewest_node" : "plan:fewest", values),
      told(least.price ? "plan:costs_price" : "plan:costs", values),
      told("plan:limits", values)
    ];
  }

  function verdict(all, said) {
    var place = one(".calc-plan-verdict"), lines = sentences(all, said);
    var unknown = all.length ? "does_not_fit" : "not_planned";
    place.setAttribute("data-verdict", plans.fewest(all) ? "fits" : unknown);
    if (place.textContent === lines.join("")) return;
    place.textContent = "";
    lines.forEach(function (text, number) {
      place.appendChild(element("p")).appendChild(element(number ? "span" : "strong", text));
    });
  }

  function limit(phase, size) {
    var cell = element("td");
    cell.appendChild(element("code", phase));
    cell.appendChild(document.createTextNode(" " + size));
    return cell;
  }

  function line(row, priced, least) {
    var made = element("tr", undefined, row === least ? { "class": "calc-fewest" } : {});
    made.appendChild(element("th", row.gpus, { scope: "row" }));
    made.appendChild(element("td", row.nodes));
    if (!row.fits) {
      var why = told("plan:" + (row.problem || "lacks"), { phase: row.fullest, room: row.room });
      made.appendChild(element("td", why, { colspan: priced ? 6 : 5 }));
      return made;
    }
    [step(row), row.hours, row.efficiency].concat(priced ? [row.price] : []).forEach(function (text) {
      made.appendChild(element("td", text));
    });
    made.appendChild(limit(row.fullest, row.room));
    made.appendChild(limit(row.longest, row.share));
    return made;
  }

  function table(all, said) {
    var priced = said.cards.some(function (card) { return said.prices[card] !== undefined; });
    var made = element("table", undefined, { "class": "docutils" }), least = plans.fewest(all);
    var wide = priced ? 8 : 7;
    var head = made.appendChild(element("thead")).appendChild(element("tr"));
    data.titles.forEach(function (name) {
      if (name !== "price" || priced) head.appendChild(element("th", words["title:" + name], { scope: "col" }));
    });
    said.cards.forEach(function (card) {
      var body = made.appendChild(element("tbody")), name = body.appendChild(element("tr"));
      name = name.appendChild(element("th", undefined, { scope: "rowgroup", colspan: wide }));
      name.appendChild(element("code", card));
      var rows = all.filter(function (row) { return row.card === card; });
      rows.forEach(function (row) { body.appendChild(line(row, priced, least)); });
      if (rows.length) return;
      body.appendChild(element("tr")).appendChild(element("td", words["plan:not_planned"], { colspan: wide }));
    });
    return made;
  }

  function show() {
    var said = answers(), all = plans.rows(said), none = !said.cards.length;
    sliders(function (name, slider) {
      var value = data[name][slider.value];
      slider.setAttribute("aria-valuetext", value);
      slider.parentNode.querySelector(".calc-value").textContent = String(value).replace(/\B(?=(\d{3})+$)/g, ",");
    });
    verdict(all, said);
    one(".calc-plan-table").textContent = "";
    if (all.length) one(".calc-plan-table").appendChild(table(all, said));
    one(".calc-plan-command").textContent = none ? "" : plans.command(said);
    one(".calc-plan-link").setAttribute("href", plans.link(said));
  }

  form.addEventListener("input", show);
  form.addEventListener("change", function () { history.replaceState(null, "", plans.link(answers())); });
  form.addEventListener("submit", function (event) { event.preventDefault(); });

  // -- tabs: arrows go from one to the other, as readers of screens expect ---------------------------

  var tabs = page.querySelectorAll(".calc-tabs button");

  function open(chosen, focus) {
    Array.prototype.forEach.call(tabs, function (tab, place) {
      var panel = document.getElementById(tab.getAttribute("aria-controls"));
      tab.setAttribute("aria-selected", String(place === chosen));
      tab.tabIndex = place === chosen ? 0 : -1;
      panel.hidden = place !== chosen;
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
    });
    if (focus) tabs[chosen].focus();
  }

  Array.prototype.forEach.call(tabs, function (tab, place) {
    tab.addEventListener("click", function () { open(place, false); });
    tab.addEventListener("keydown", function (event) {
      var last = tabs.length - 1, key = event.key;
      var next = { ArrowLeft: place ? place - 1 : last, ArrowRight: place < last ? place + 1 : 0, Home: 0, End: last };
      if (!Object.prototype.hasOwnProperty.call(next, key)) return;
      event.preventDefault();
      open(next[key], true);
    });
  });

  function follow() {
    var asked = plans.isLink(location.hash);
    if (asked) fill(plans.read(location.hash));
    return asked;
  }

  window.addEventListener("hashchange", function () {
    if (follow()) open(1, false);
    else if (location.hash.indexOf("=") > 0) open(0, false);
  });
  one(".calc-plan-copy").addEventListener("click", function (event) {
    var button = event.target, range = document.createRange(), selection = getSelection();
    range.selectNodeContents(one(".calc-plan-command"));
    selection.removeAllRanges();
    selection.addRange(range);
    if (document.execCommand("copy")) {
      button.textContent = words.copied;
      setTimeout(function () { button.textContent = words.copy; }, 2000);
    }
  });
  each(".calc-tabs, .calc-plan-form, .calc-plan-verdict, .calc-plan .calc-links, .calc-plan-copy", function (part) {
    part.hidden = false;
  });
  if (!follow()) show();
  open(plans.isLink(location.hash) ? 1 : 0, false);
})();
