/**
 * One way to call the API. Every failure is an [`ApiError`]: with the problem's text if the drive told one, with status 0
 * if the drive could not be reached.
 */
import type { Problem } from './types';

/** Where the API is: for the visitor of a link, below that link. */
export let API = '/api/v1';

export function setApi(root: string): void {
  API = root;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly detail: string,
    readonly retryAfterS: number | null = null,
    readonly problem: Partial<Problem> = {},
  ) {
    super(detail);
    this.name = 'ApiError';
  }

  /** Nobody answered: offline, or the drive is away. */
  get unreachable(): boolean {
    return this.status === 0;
  }

  /** Asking again may help. */
  get passing(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

type Listener = () => void;
let signedOut: Listener = () => {};
let reached: (yes: boolean) => void = () => {};

/** What to do when the session turned out to have ended. */
export function onSignedOut(listener: Listener): void {
  signedOut = listener;
}

/** Told after every call whether the drive answered. */
export function onReached(listener: (yes: boolean) => void): void {
  reached = listener;
}

/** What a call learned that went another way than [`send`]: about the drive and the session. */
export function heard(status: number): void {
  reached(status !== 0);
  if (status === 401) signedOut();
}

export interface Call {
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  query?: Record<string, string | number | readonly string[] | undefined>;
  signal?: AbortSignal;
  /** A 401 is an answer, not the end of the session. */
  signingIn?: boolean;
}

export function url(path: string, query: Call['query'] = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (typeof value === 'object') for (const one of value) params.append(name, one);
    else if (value !== undefined && value !== '') params.set(name, String(value));
  }
  const text = params.toString();
  return text === '' ? API + path : `${API}${path}?${text}`;
}

/** Sends a call and answers the response if it succeeded. */
export async function send(method: string, path: string, call: Call = {}): Promise<Response> {
  const headers: Record<string, string> = { 'X-Requested-With': 'holdfast', ...call.headers };
  let body = call.body ?? null;
  if (call.json !== undefined) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(call.json);
  }
  let response: Response;
  try {
    response = await fetch(url(path, call.query), {
      method,
      headers,
      body,
      signal: call.signal ?? null,
      // What is given up or removed is so even if the page is left at once.
      keepalive: method === 'DELETE',
      credentials: 'same-origin',
      cache: 'no-store',
    });
  } catch (error) {
    if (call.signal?.aborted) throw error;
    heard(0);
    throw new ApiError(0, '');
  }
  heard(call.signingIn ? 200 : response.status);
  if (response.ok) return response;
  throw await failure(response);
}

/** Sends a call and answers the JSON that came back. */
export async function ask<T>(method: string, path: string, call: Call = {}): Promise<T> {
  const response = await send(method, path, call);
  return (response.status === 204 || response.status === 202 ? undefined : await response.json()) as T;
}

/** Bytes that the browser may keep and ask about again; null if there are none. */
export async function blob(address: string, signal: AbortSignal): Promise<Blob | null> {
  const response = await fetch(address, { signal, headers: { 'X-Requested-With': 'holdfast' }, credentials: 'same-origin' });
  if (response.ok) return response.blob();
  if (response.status === 404) return null;
  throw await failure(response);
}

export async function failure(response: Response): Promise<ApiError> {
  const retry = Number(response.headers.get('Retry-After'));
  let detail = '';
  let problem: Partial<Problem> = {};
  try {
    problem = (await response.json()) as Partial<Problem>;
    if (typeof problem.detail === 'string') detail = problem.detail;
    else if (typeof problem.title === 'string') detail = problem.title;
  } catch {
    detail = response.statusText;
  }
  return new ApiError(response.status, detail, retry > 0 ? retry : null, problem);
}
