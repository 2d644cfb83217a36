// The shown host is part of the address, so that it can be linked to and Back works.

const PREFIX = "#host=";

/** Call `onHost(id)` now and whenever the address changes; an empty id means no host. */
export function startRouter(onHost) {
  const changed = () => onHost(hostOf(location.hash));
  window.addEventListener("hashchange", changed);
  changed();
}

export const goTo = (id) => (location.hash = id ? `${PREFIX}${id}` : "#hosts");

function hostOf(hash) {
  const id = hash.startsWith(PREFIX) ? hash.slice(PREFIX.length) : "";
  return /^[0-9a-f]{16}$/.test(id) ? id : "";
}
