// The calculator's page: reads the form, asks calculator-answers.js, shows what it says.
(function () {
  "use strict";
  var page = document.querySelector(".calculator");
  if (!page || typeof tunerMemory !== "function") return;
  var data = JSON.parse(document.getElementById("calc-data").textContent);
  var model = tunerAnswers(data), words = data.words, form = page.querySelector("form"), GIB = 1073741824;

  function one(selector) { return page.querySelector(selector); }
  function gib(bytes) { return (bytes / GIB).toFixed(1) + " GiB"; }
  function exact(number) { return String(number).replace(/\B(?=(\d{3})+$)/g, ","); }
  function element(name, text, attributes) {
    var made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (var key in attributes || {}) made.setAttribute(key, attributes[key]);
    return made;
  }
  function refill(parent, children) {
    parent.textContent = "";
    children.forEach(function (child) { parent.appendChild(child); });
  }

  // -- what the form says ------------------------------------------------------------------

  function answers() {
    var said = { model: form.elements.model.value, card: form.elements.card.value };
    data.amounts.forEach(function (amount) {
      var number = Math.round(Number(form.elements[amount[0]].value));
      said[amount[0]] = Math.min(amount[2], Math.max(amount[1], number || amount[1]));
    });
    for (var name in data.choices) {
      var field = form.elements[name];
      said[name] = field.type === "checkbox" ? (field.checked ? "on" : "off") : field.value;
    }
    return said;
  }

  function fill(said) {
    for (var name in data.start) {
      var field = form.elements[name], value = said[name] === undefined ? data.start[name] : said[name];
      if (field.type === "checkbox") field.checked = value === "on";
      else field.value = value;
      if (field.value === "" || field.selectedIndex === -1) field.value = data.start[name];
    }
  }

  // -- the answer ----------------------------------------------------------------------------

  function bar(phase, found, scale) {
    var row = element("div", undefined, { "class": "calc-bar" + (phase.peak > found.capacity ? " calc-over" : "") });
    var name = element("span", undefined, { "class": "calc-name" });
    name.appendChild(element("code", phase.name));
    row.appendChild(name);
    row.appendChild(element("span", gib(phase.peak), { "class": "calc-peak" }));
    var stack = element("span", undefined, { "class": "calc-stack", "aria-hidden": "true" });
    data.parts.forEach(function (part) {
      var size = phase.parts[part[0]];
      if (!size) return;
      var wide = 100 * size / scale;
      stack.appendChild(element("span", wide > 3 ? part[1] : "", {
        style: "width:" + wide.toFixed(3) + "%;background:" + part[2],
        title: words["part:" + part[0]] + ": " + gib(size)
      }));
    });
    stack.appendChild(element("i", "", { style: "left:" + (100 * found.capacity / scale).toFixed(3) + "%" }));
    row.appendChild(stack);
    return row;
  }

  function present(found) {
    return data.parts.filter(function (part) {
      return found.phases.some(function (phase) { return phase.parts[part[0]]; });
    });
  }

  function legend(found) {
    var items = present(found).map(function (part) {
      var item = element("li");
      item.appendChild(element("span", part[1], { style: "background:" + part[2] }));
      item.appendChild(document.createTextNode(" " + words["part:" + part[0]]));
      return item;
    });
    var card = element("li");
    card.appendChild(element("i"));
    card.appendChild(document.createTextNode(" " + words.card_line));
    return items.concat(card);
  }

  function table(found) {
    var made = element("table", undefined, { "class": "docutils" }), head = element("tr");
    var parts = present(found);
    [words.phase, words.peak, words.interval].concat(parts.map(function (part) {
      return words["part:" + part[0]];
    })).forEach(function (text) { head.appendChild(element("th", text, { scope: "col" })); });
    made.appendChild(element("thead")).appendChild(head);
    var body = made.appendChild(element("tbody"));
    found.phases.forEach(function (phase) {
      var row = body.appendChild(element("tr"));
      row.appendChild(element("th", undefined, { scope: "row" })).appendChild(element("code", phase.name));
      row.appendChild(element("td", gib(phase.peak)));
      var ends = [gib(phase.low).replace(" GiB", ""), gib(phase.high).replace(" GiB", "")];
      row.appendChild(element("td", ends[0] === ends[1] ? ends[0] : ends.join(" – ")));
      parts.forEach(function (part) {
        row.appendChild(element("td", phase.parts[part[0]] ? gib(phase.parts[part[0]]) : "–"));
      });
    });
    return made;
  }

  function facts(found) {
    var listed = [
      ["worst", ""], ["capacity", gib(found.capacity)], ["free", gib(found.capacity - found.worst.peak)],
      ["kv_tokens", exact(found.rollout.kv_tokens)], ["concurrent", exact(found.rollout.concurrent_sequences)],
      ["running", exact(found.rollout.running_sequences)]
    ];
    var made = [];
    listed.forEach(function (fact) {
      made.push(element("dt", words[fact[0]]));
      var value = element("dd", fact[1]);
      if (fact[0] === "worst") {
        value.appendChild(element("code", found.worst.name));
        value.appendChild(document.createTextNode(", " + gib(found.worst.peak)));
      }
      made.push(value);
    });
    return made;
  }

  function verdict(name, reasons) {
    var said = one(".calc-verdict"), sentence = element("p");
    sentence.appendChild(element("strong", words[name]));
    var list = element("ul");
    reasons.forEach(function (text) { list.appendChild(element("li", words["said:" + text] || text)); });
    if (said.getAttribute("data-verdict") === name && said.querySelector("ul").textContent === list.textContent) return;
    said.setAttribute("data-verdict", name);
    refill(said, [sentence, list]);
  }

  function show() {
    var said = answers();
    one(".calc-command").textContent = model.command(said);
    one(".calc-link").setAttribute("href", model.link(said));
    var possible = said.gpus * said.nodes >= Number(said.tensor_parallel);
    [".calc-facts", ".calc-bars", ".calc-legend", ".calc-numbers"].forEach(function (name) {
      one(name).hidden = !possible;
    });
    if (!possible) { verdict("impossible", []); return; }
    var found = model.judged(said), scale = Math.max(found.capacity, found.worst.peak);
    verdict(found.verdict, found.problems.concat(found.doubts));
    refill(one(".calc-facts"), facts(found));
    refill(one(".calc-bars"), found.phases.map(function (phase) { return bar(phase, found, scale); }));
    refill(one(".calc-legend"), legend(found));
    refill(one(".calc-table"), [table(found)]);
  }

  // -- sliders: two steps to a doubling, but for percent ---------------------------------------

  function slider(amount) {
    var range = one('input[data-of="' + amount[0] + '"]'), field = form.elements[amount[0]];
    var low = amount[1], high = amount[2], doublings = amount[4] === 1 && high / low > 20;
    range.min = doublings ? 0 : low;
    range.max = doublings ? Math.round(2 * Math.log(high / low) / Math.LN2) : high;
    range.step = 1;
    range.hidden = false;
    function follow() {
      range.value = doublings ? Math.round(2 * Math.log(field.value / low) / Math.LN2) : field.value;
      range.setAttribute("aria-valuetext", field.value);
    }
    range.addEventListener("input", function () {
      field.value = doublings ? Math.round(low * Math.pow(2, range.value / 2)) : range.value;
      range.setAttribute("aria-valuetext", field.value);
      show();
    });
    field.addEventListener("input", follow);
    return follow;
  }

  var follows = data.amounts.map(slider);
  function refresh(said) {
    fill(said);
    follows.forEach(function (follow) { follow(); });
    show();
  }

  form.addEventListener("input", show);
  form.addEventListener("change", function () {
    refresh(answers());
    history.replaceState(null, "", model.link(answers()));
  });
  form.addEventListener("submit", function (event) { event.preventDefault(); });
  window.addEventListener("hashchange", function () { refresh(model.read(location.hash)); });
  one(".calc-reset").addEventListener("click", function () {
    history.replaceState(null, "", location.pathname + location.search);
    refresh({});
  });
  one(".calc-copy").addEventListener("click", function (event) {
    var button = event.target, range = document.createRange(), selection = getSelection();
    range.selectNodeContents(one(".calc-command"));
    selection.removeAllRanges();
    selection.addRange(range);
    if (document.execCommand("copy")) {  // the clipboard's newer interface does not work from file://
      button.textContent = words.copied;
      setTimeout(function () { button.textContent = words.copy; }, 2000);
    }
  });
  [form, one(".calc-links"), one(".calc-copy")].forEach(function (part) { part.hidden = false; });
  refresh(model.read(location.hash));
})();
