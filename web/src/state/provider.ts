/** Going to a provider, coming back, and signing out there: what is remembered of it is how it began and which provider it was, nothing secret. */
import { leaveProvider as askWhere, ways } from '../api/session';

export interface Leaving {
  provider: string;
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
    provider: typeof left.provider === 'string' ? left.provider : '',
    link: left.link === true,
    remember: left.remember === true,
    code: params.get('code') ?? '',
    state: params.get('state') ?? '',
    ...(issuer !== null && { issuer }),
    refused: params.has('error') || !params.has('code'),
  };
}

/** The provider by which this browser's session came; empty for none. */
const CAME_BY = 'holdfast.came-by';

export function cameBy(provider: string): void {
  try {
    if (provider === '') localStorage.removeItem(CAME_BY);
    else localStorage.setItem(CAME_BY, provider);
  } catch {
    // Without storage nothing is offered when signing out.
  }
}

/** A provider where one is still signed in, and where to end that. */
export interface Left {
  name: string;
  /** None: the provider has no address to sign out at. */
  url: string | null;
}

/** After signing out of the drive: goes to the provider to sign out there, or answers what to offer, as the operator set it. */
export async function leaveProvider(): Promise<Left | null> {
  try {
    const id = localStorage.getItem(CAME_BY) ?? '';
    cameBy('');
    if (id === '') return null;
    const provider = (await ways()).providers.find((one) => one.id === id);
    if (!provider || provider.sign_out === 'keep') return null;
    const { url } = await askWhere(id);
    if (url !== null && provider.sign_out === 'always') location.assign(url);
    return { name: provider.name, url };
  } catch {
    // The drive's session has ended all the same.
    return null;
  }
}
