// What the calculator makes of the answers in its form, without a page: the tests ask it as well.
function tunerAnswers(data) {
  "use strict";

  function read(hash) {
    var said = {};
    if (/^#gpus(&|$)/.test(hash)) return said;  // what the other tab says
    hash.slice(1).split("&").forEach(function (part) {
      var cut = part.indexOf("=");
      var name = part.slice(0, cut);
      if (cut > 0 && Object.prototype.hasOwnProperty.call(data.start, name)) {
        try { said[name] = decodeURIComponent(part.slice(cut + 1)); } catch (error) { return; }
      }
    });
    return said;
  }

  function link(said) {
    return "#" + Object.keys(said).map(function (name) {
      return name + "=" + encodeURIComponent(said[name]);
    }).join("&");
  }

  function command(said) {
    var lines = ["tuner advise /dev/null", data.model_key + "=" + said.model].concat(data.common);
    data.amounts.forEach(function (amount) {
      lines.push(amount[3] + "=" + (amount[4] === 1 ? said[amount[0]] : said[amount[0]] / amount[4]));
    });
    for (var name in data.choices) lines = lines.concat(data.choices[name][said[name]]);
    lines.push("--gpu " + said.card + " --verl-version " + data.release);
    return lines.join(" \\\n  ");
  }

  function rows(said) {
    var found = { model: data.models[said.model], card: data.cards[said.card] };
    for (var name in data.choices) found[name] = Object.keys(data.choices[name]).indexOf(said[name]);
    return found;
  }

  function total(moment, end) {
    return moment.terms.reduce(function (sum, term) { return sum + term[end]; }, 0);
  }

  function judged(said) {
    var found = tunerMemory(said, rows(said));
    found.phases.forEach(function (phase) {
      phase.peak = -1;
      phase.low = phase.high = 0;
      phase.moments.forEach(function (moment) {
        var size = total(moment, "bytes");
        if (size > phase.peak) { phase.peak = size; phase.at = moment; }
        phase.low = Math.max(phase.low, total(moment, "low"));
        phase.high = Math.max(phase.high, total(moment, "high"));
      });
      phase.parts = {};
      phase.at.terms.forEach(function (term) {
        phase.parts[term.item] = (phase.parts[term.item] || 0) + term.bytes;
      });
    });
    found.worst = found.phases.reduce(function (most, phase) { return phase.peak > most.peak ? phase : most; });
    var certain = found.phases.every(function (phase) { return phase.high <= found.capacity; });
    if (found.problems.length) found.verdict = "will_not_start";
    else if (found.phases.some(function (phase) { return phase.low > found.capacity; })) found.verdict = "does_not_fit";
    else found.verdict = certain && !found.doubts.length ? "fits" : "may_not_fit";
    return found;
  }

  return { read: read, link: link, command: command, rows: rows, judged: judged };
}
