/** What the API answers. `/api/v1/openapi.json` is the reference; these are the parts the pages use. */

export type Role = 'reader' | 'editor' | 'owner';
export type Kind = 'file' | 'folder';
export type Conflict = 'fail' | 'replace' | 'keep-both';

/** Paths are without slashes at the ends; `''` is the root. */
export interface Place {
  space: string;
  path: string;
}

export interface Space {
  name: string;
  home: boolean;
  role: Role;
  used_bytes: number;
  version_bytes: number;
  reserved_bytes: number;
  available_bytes?: number;
  retention_days: number;
  /** Who shared it, if it is a folder shared with the caller. */
  shared_by?: string;
  /** What it is called where its name is no name: what a link leads to. */
  title?: string;
  /** A drop box: files go in, and nothing is seen. */
  uploads_only?: boolean;
  /** Downloads are counted: nothing is fetched that was not asked for. */
  counted?: boolean;
}

export type Access = 'read' | 'write' | 'upload';

/** A folder shared with an account, or a link. */
export interface Share {
  id: string;
  by: string;
  /** Absent for a link. */
  account?: string;
  space: string;
  /** Absent while it is in the trash, or gone. */
  path?: string;
  kind?: Kind;
  access: Access;
  label: string;
  /** A link's address on this drive, for whoever made it. */
  link?: string;
  has_password: boolean;
  expires_ms?: number;
  downloads_max?: number;
  downloads: number;
  created_ms: number;
}

export interface Shares {
  by_me: Share[];
  with_me: Share[];
}

export interface NewShare {
  account?: string;
  access: Access;
  label?: string;
  password?: string;
  expires_ms?: number;
  downloads_max?: number;
}

export interface ShareChange {
  access?: Access;
  label?: string;
  password?: string | null;
  expires_ms?: number | null;
  downloads_max?: number | null;
}

export interface Member {
  account: string;
  role: Role;
}

/** What a link leads to. */
export interface LinkInfo {
  id: string;
  by: string;
  label: string;
  name: string;
  kind: Kind;
  access: Access;
  expires_ms?: number;
  downloads_left?: number;
}

export interface Me {
  name: string;
  admin: boolean;
  read_only: boolean;
  spaces: Space[];
}

export interface Node {
  id: number;
  name: string;
  kind: Kind;
  size_bytes: number;
  created_ms: number;
  modified_ms: number;
  etag: string;
  /** Absent or empty for folders. */
  type?: string;
  tags: string[];
}

/** One node with what only its own page shows. */
export interface NodeDetails extends Node {
  path: string;
  role: Role;
  versions: number;
}

export interface FolderPage {
  folder: Node;
  role: Role;
  entries: Node[];
  /** The name to go on after; absent or null on the last page. */
  next?: string | null;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  second_factor?: SecondFactor;
}

/** What an account wants besides the password. */
export interface SecondFactor {
  codes: boolean;
  passkey?: PasskeyQuestion;
}

export interface PasskeyQuestion {
  ticket: string;
  challenge: string;
  party: string;
  credentials: string[];
  secret_input: string;
  algorithms: number[];
  user: string;
  timeout_ms: number;
}

export interface PasskeyAnswer {
  ticket: string;
  credential: string;
  client_data: string;
  authenticator_data: string;
  signature: string;
  user?: string;
  secret?: string;
}

export interface Passkey {
  id: number;
  label: string;
  /** Signs in without the password; otherwise it is a second factor. */
  alone: boolean;
  created_ms: number;
  used_ms?: number;
}

export interface Factors {
  second_factor: boolean;
  codes_since_ms?: number;
  recovery_code_ms?: number;
  escrow: boolean;
  passkeys: Passkey[];
}

/** Ways to sign in besides name and password. */
export interface Ways {
  providers: { id: string; name: string; sign_out: 'keep' | 'offer' | 'always' }[];
  escrow: boolean;
}

/** How somebody who came from a provider goes on. */
export interface Arrival {
  me?: Me;
  recovery_code?: string;
  passphrase?: { ticket: string; account: string; first: boolean };
}

export interface Identity {
  id: number;
  provider: string;
  label: string;
  created_ms: number;
  used_ms?: number;
}

export interface NewCodes {
  secret: string;
  uri: string;
  ticket: string;
}

/** What became of one item of a batch. */
export interface ItemResult {
  node?: Node;
  /** The trash entry a removed node is now; null in a space that keeps nothing. */
  trash?: number | null;
  problem?: Problem;
}

export interface Move {
  from: Place;
  to: Place;
}

export interface TrashEntry {
  entry: number;
  kind: Kind;
  path: string;
  deleted_ms: number;
  size_bytes: number;
  nodes: number;
}

export interface Version {
  version: number;
  size_bytes: number;
  modified_ms: number;
  superseded_ms: number;
}

export interface Token {
  id: number;
  label: string;
  read_only: boolean;
  space?: string;
  created_ms: number;
  used_ms?: number;
  expires_ms?: number;
}

export interface NewToken {
  label: string;
  read_only: boolean;
  space?: string;
  expires_ms?: number;
}

/** A signed-in browser. */
export interface Device {
  id: number;
  label: string;
  created_ms: number;
  used_ms: number;
  expires_ms?: number;
  current: boolean;
}

export interface TagCount {
  tag: string;
  count: number;
}

export interface SearchQuery {
  q: string;
  space?: string;
  kind?: Kind;
  type?: string;
  min_bytes?: number;
  max_bytes?: number;
  after_ms?: number;
  before_ms?: number;
  /** Modified in the last so many days. */
  within_days?: number;
  /** All of them. */
  tag?: string[];
  limit?: number;
  cursor?: string;
}

/** What a saved search looks for. */
export type SavedQuery = Omit<SearchQuery, 'tag' | 'limit' | 'cursor'> & { tags: string[] };

/** A search that is kept and shown as a folder. */
export interface SavedSearch {
  id: number;
  name: string;
  query: SavedQuery;
  /** Where goes what is put into it; absent while that is in the trash, or out of sight. */
  folder?: Place;
  created_ms: number;
  changed_ms: number;
}

export interface SavedWish {
  name: string;
  query: SavedQuery;
  /** Null is the caller's home. */
  folder: Place | null;
}

export interface Hit extends Place {
  node: Node;
}

export interface SearchPage {
  hits: Hit[];
  more: boolean;
  /** The next page, if there is one. */
  cursor?: string;
  indexing: boolean;
}

export interface Unfinished extends Place {
  id: string;
  length_bytes: number;
  offset_bytes: number;
  /** All bytes are there, but the name was taken: it is finished under another rule, or given up. */
  waits: boolean;
  expires_ms: number;
}
