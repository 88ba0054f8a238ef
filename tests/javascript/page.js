// As much of a page as the modules under test touch: elements with classes, attributes, children and events.

class Node_ {
  /** @param {string} tag */
  constructor(tag) {
    this.tagName = tag.toUpperCase();
    this.children = [];
    this.attributes = {};
    this.listeners = {};
    this.style = { setProperty() {} };
    this.dataset = {};
    this.textContent = "";
    this.scrollTop = 0;
    this.clientHeight = 0;
    this.clientWidth = 0;
    const names = new Set();
    this.classList = { add: (name) => names.add(name), remove: (name) => names.delete(name), contains: (name) => names.has(name), toggle: (name, on) => (on ? names.add(name) : names.delete(name)) };
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  getAttribute(name) {
    return this.attributes[name] ?? null;
  }
  removeAttribute(name) {
    delete this.attributes[name];
  }
  hasAttribute(name) {
    return name in this.attributes;
  }
  append(...children) {
    this.children.push(...children);
  }
  replaceChildren(...children) {
    this.children = children;
  }
  addEventListener(name, listener) {
    this.listeners[name] = [...(this.listeners[name] ?? []), listener];
  }
  fire(name, event) {
    for (const listener of this.listeners[name] ?? []) listener({ preventDefault() {}, stopPropagation() {}, target: this, ...event });
  }
  focus() {}
}

/** Put the stand-in where the modules look for a page. */
export function install() {
  globalThis.document = { createElement: (tag) => new Node_(tag) };
  globalThis.Element = Node_;
  globalThis.ResizeObserver = class {
    observe() {}
    disconnect() {}
  };
}

/** A model as anywidget gives it, and what was sent through it. */
export function fakeModel(values) {
  const listeners = {};
  const model = {
    values: { ...values },
    sent: [],
    get: (name) => model.values[name],
    send: (content) => model.sent.push(content),
    on: (name, listener) => (listeners[name] = [...(listeners[name] ?? []), listener]),
    off() {},
    fire: (name, ...given) => (listeners[name] ?? []).forEach((listener) => listener(...given)),
    /** What Python sends: parts of the state. */
    receive(state) {
      Object.assign(model.values, state);
      for (const name of Object.keys(state)) model.fire(`change:${name}`);
    },
  };
  return model;
}

/** Wait until followers of a store were told. */
export const told = () => new Promise((resolve) => setTimeout(resolve));
