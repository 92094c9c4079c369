/**
 * The quiz: makes choices of a question's answers, explains the one that is chosen, keeps the score.
 *
 * Everything that it shows stands in the page already, folded below each question. The score counts
 * first choices and is gone with the page.
 */
"use strict";

(() => {
  /** First choices by question: right or wrong. */
  const first = new Map();

  /** A radio button and its label in the place of an answer's text. */
  function makeChoice(question, item, number) {
    const [label, radio, text] = ["label", "input", "span"].map((tag) => document.createElement(tag));
    radio.type = "radio";
    radio.autocomplete = "off"; // a browser that goes back would tick it, and nothing be said
    radio.name = question.id;
    radio.value = String(number);
    text.append(...item.childNodes);
    label.append(radio, text);
    item.replaceChildren(label);
  }

  /** Say whether the choice is right, and why, in the words that stand folded below. */
  function explain(question, number) {
    const reason = question.querySelectorAll(".reasons > li")[number];
    const right = reason.hasAttribute("data-right");
    const verdict = question.querySelector(".verdict");
    const word = document.createElement("b");
    word.textContent = right ? "Right. " : "Not right. ";
    verdict.replaceChildren(word, ...reason.querySelector("span").cloneNode(true).childNodes);
    verdict.dataset.right = String(right);
    question.querySelector("details").hidden = false;
    question.querySelector(".shown-in").hidden = false;
    if (!first.has(question.id)) first.set(question.id, right);
  }

  function showScore(output, questions) {
    const right = [...first.values()].filter(Boolean).length;
    const done = first.size === questions.length ? "All" : `${first.size} of ${questions.length}`;
    output.textContent = first.size
      ? `${done} answered; right at the first choice: ${right}.`
      : "Nothing answered yet.";
  }

  /** Fold everything again, as it was when the page was opened. */
  function reset(question) {
    question.querySelectorAll("input").forEach((radio) => (radio.checked = false));
    const [verdict, folded] = [question.querySelector(".verdict"), question.querySelector("details")];
    verdict.replaceChildren();
    delete verdict.dataset.right;
    folded.open = false;
    folded.hidden = true;
    question.querySelector(".shown-in").hidden = true;
  }

  function enliven(question, changed) {
    question.querySelectorAll("ol > li").forEach((item, number) => makeChoice(question, item, number));
    const verdict = document.createElement("p");
    verdict.className = "verdict";
    verdict.setAttribute("aria-live", "polite");
    question.querySelector("ol").after(verdict);
    reset(question);
    question.addEventListener("change", (event) => {
      explain(question, Number(event.target.value));
      changed();
    });
  }

  function makeScore(questions) {
    const [place, output, again] = ["div", "output", "button"].map((tag) => document.createElement(tag));
    place.className = "quiz-score";
    again.type = "button";
    again.textContent = "Start again";
    output.setAttribute("aria-live", "polite");
    const changed = () => showScore(output, questions);
    again.addEventListener("click", () => {
      first.clear();
      questions.forEach(reset);
      changed();
      questions[0].querySelector("input").focus();
    });
    place.append(output, again);
    questions[questions.length - 1].after(place);
    return changed;
  }

  const questions = [...document.querySelectorAll("fieldset.quiz")];
  const changed = makeScore(questions);
  questions.forEach((question) => enliven(question, changed));
  changed();
})();
