// What the calculator knows of numbers of GPUs, without a page: the tests ask it as well.
// Every answer was planned by tuner when it was written down; nothing is computed here but a price.
function tunerPlans(data) {
  "use strict";

  function listed(values, value) { return values.indexOf(value) >= 0; }

  function amount(text) {
    var price = Number(text);
    return String(text).trim() === "" || !isFinite(price) || price < 0 ? null : price;
  }

  // What a form says, put in order: "model", "prompts", "response", "cards" and "prices" by card.
  function said(given) {
    var answers = { prices: {} };
    ["model", "prompts", "response"].forEach(function (name) {
      var values = data[name === "model" ? "models" : name], value = given[name];
      if (name !== "model") value = Number(value);
      answers[name] = listed(values, value) ? value : data.start[name];
    });
    answers.cards = data.cards.filter(function (card) { return listed(given.cards || data.start.cards, card); });
    data.cards.forEach(function (card) {
      var price = amount((given.prices || {})[card] === undefined ? "" : given.prices[card]);
      if (price !== null) answers.prices[card] = price;
    });
    return answers;
  }

  // -- links -----------------------------------------------------------------------------------

  function link(answers) {
    var parts = ["gpus", "model=" + encodeURIComponent(answers.model), "prompts=" + answers.prompts,
      "response=" + answers.response, "cards=" + answers.cards.join("+")];
    for (var card in answers.prices) parts.push("price." + card + "=" + answers.prices[card]);
    return "#" + parts.join("&");
  }

  function isLink(hash) { return /^#gpus(&|$)/.test(hash); }

  function read(hash) {
    var given = { prices: {} };
    hash.slice(1).split("&").slice(1).forEach(function (part) {
      var cut = part.indexOf("="), name = part.slice(0, cut), value;
      try { value = decodeURIComponent(part.slice(cut + 1)); } catch (error) { return; }
      if (name === "cards") given.cards = value.split("+");
      else if (name.slice(0, 6) === "price.") given.prices[name.slice(6)] = value;
      else given[name] = value;
    });
    return said(given);
  }

  // -- answers -----------------------------------------------------------------------------------

  function money(price) {
    var small = price > 0 && price < 0.1;  // two digits behind the zeros
    var digits = small ? 1 - Math.floor(Math.log10(price)) : price >= 100 ? 0 : 2;
    var text = price.toFixed(digits).split(".");
    text[0] = text[0].replace(/\B(?=(\d{3})+$)/g, ",");
    return text.join(".");
  }

  // The numbers of GPUs of the cards: cards in their order, each from its fewest GPUs on.
  function rows(answers) {
    var all = [];
    answers.cards.forEach(function (card) {
      var key = [answers.model, card, answers.prompts, answers.response].join("|");
      (data.answers[key] || []).forEach(function (cells) {
        var row = { card: card, price: "" };
        data.columns.forEach(function (name, place) { row[name] = cells[place]; });
        row.fits = row.step !== "";
        if (row.fits && answers.prices[card] !== undefined) row.price = money(answers.prices[card] * row.gpu_hours);
        all.push(row);
      });
    });
    return all;
  }

  function fewest(all) {
    return all.reduce(function (least, row) {
      if (!row.fits) return least;
      var fewer = !least || row.gpus < least.gpus || (row.gpus === least.gpus && row.nodes < least.nodes);
      return fewer ? row : least;
    }, null);
  }

  function command(answers) {
    var lines = data.words[answers.model][answers.prompts][answers.response].slice();
    var last = ["--gpu " + answers.cards.join(","), "--nodes " + data.options.nodes];
    answers.cards.forEach(function (card) {
      if (answers.prices[card] !== undefined) last.push("--price " + card + "=" + answers.prices[card] + "/h");
    });
    lines.push(last.concat(["--verl-version " + data.options.release]).join(" "));
    return lines.join(" \\\n  ");
  }

  return { said: said, link: link, isLink: isLink, read: read, rows: rows, fewest: fewest, command: command };
}
