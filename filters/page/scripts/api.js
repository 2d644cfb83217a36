// Asking the service: JSON in, errors with the service's own words out.

import { askForToken, authorization } from "./token.js";

export class ServiceError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** The response of a path, after the token was asked for where needed. Throws ServiceError, TypeError (network). */
export async function request(path, options = {}) {
  for (;;) {
    const used = authorization();
    const response = await fetch(path, {
      ...options,
      headers: { ...options.headers, ...used },
      cache: "no-store",
      credentials: "omit",
    });
    if (response.ok) return response;
    if (response.status !== 401) throw new ServiceError(response.status, await detailOf(response));
    if (used.Authorization === authorization().Authorization) await askForToken();
  }
}

/** The document of a path. */
export const getJson = async (path, signal) => (await request(path, { signal })).json();

async function detailOf(response) {
  try {
    const problem = await response.json();
    return problem.detail || problem.title || `status ${response.status}`;
  } catch {
    return `status ${response.status}`;
  }
}
