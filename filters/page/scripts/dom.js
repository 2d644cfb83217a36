// Creating and changing elements. Text is added as text nodes only: names of hosts and processes are hostile input.

export const byId = (id) => document.getElementById(id);

/** An element with attributes and children; strings become text. `on...` functions are listeners. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Change text only if it differs, to preserve selections and not disturb screen readers. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Change an attribute only if it differs; null removes it. */
export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** Make the children of a parent match `rows`, in order: kept by key, created if new, always updated. */
export function keyed(parent, rows, keyOf, make, update) {
  const known = parent.knownRows ?? (parent.knownRows = new Map());
  const wanted = new Set(rows.map(keyOf));
  for (const [key, node] of known) {
    if (!wanted.has(key)) {
      node.remove();
      known.delete(key);
    }
  }
  let place = parent.firstElementChild;
  for (const row of rows) {
    const key = keyOf(row);
    let node = known.get(key);
    if (!node) known.set(key, (node = make(row)));
    update(node, row);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
}
