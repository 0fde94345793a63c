/** Going to a provider and coming back: what this tab remembers of it is how it began, nothing secret. */

export interface Leaving {
  link: boolean;
  remember: boolean;
}

const KEY = 'holdfast.provider';

export function leaveFor(url: string, how: Leaving): void {
  sessionStorage.setItem(KEY, JSON.stringify(how));
  location.assign(url);
}

export interface Returned extends Leaving {
  code: string;
  state: string;
  issuer?: string;
  /** The provider said no, or the person did. */
  refused: boolean;
}

/** What the address says on coming back, which is then taken out of it. None if nobody came back. */
export function comeBack(): Returned | null {
  const params = new URLSearchParams(location.search);
  const how = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  history.replaceState(history.state, '', '/signin');
  if (!params.has('state') && !params.has('error')) return null;
  let left: Partial<Leaving> = {};
  try {
    left = how === null ? {} : (JSON.parse(how) as Partial<Leaving>);
  } catch {
    // Then it was a plain sign-in.
  }
  const issuer = params.get('iss');
  return {
    link: left.link === true,
    remember: left.remember === true,
    code: params.get('code') ?? '',
    state: params.get('state') ?? '',
    ...(issuer !== null && { issuer }),
    refused: params.has('error') || !params.has('code'),
  };
}
