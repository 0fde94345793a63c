/** What administrators ask for. */
import { ask, url } from './http';

export interface Account {
  name: string;
  admin: boolean;
  disabled: boolean;
  quota_bytes?: number;
  used_bytes: number;
  created_ms: number;
}
export interface MadeAccount {
  account: Account;
  password?: string;
  recovery_code: string;
}
export interface AdminSpace {
  name: string;
  owner: string;
  home: boolean;
  used_bytes: number;
  version_bytes: number;
  quota_bytes?: number;
  retention_days: number;
  members: { account: string; role: string }[];
}
export interface Operations {
  count: number;
  failed: number;
  sum_us: number;
  buckets: number[];
}
export interface Traffic {
  requests: number;
  bytes_in: number;
  bytes_out: number;
}
export interface Figures {
  ms: number;
  operations: Record<string, Operations>;
  accounts: Record<string, Traffic>;
  clients: Record<string, Traffic>;
  running: number;
  memory_bytes: number;
}
export interface Pressure {
  locks: number;
  uploads: number;
  reserved_bytes: number;
  packs: number;
  packs_open: number;
  total_bytes: number;
  live_bytes: number;
  used_bytes: number;
  garbage: number;
  words_waiting: number;
}
export interface Minute {
  at_ms: number;
  figures: Figures;
}
export interface Store {
  kind: string;
  free_bytes?: number;
  now: Pressure;
  hours: { at_ms: number; total_bytes: number; live_bytes: number }[];
}
export interface Cluster {
  now_ms: number;
  nodes: { name: string; version: string; addresses: string[]; started_ms: number; ok: boolean }[];
  jobs: { name: string; holder?: string; last_ms?: number; last?: string; failed: boolean }[];
}
export interface AuditEntry {
  id: number;
  at_ms: number;
  account: string;
  address: string;
  action: string;
  object: string;
  detail: string;
  result: string;
}
export interface Setting {
  key: string;
  value: unknown;
  origin: string;
}
export interface Site {
  name: string;
  path: string;
  url?: string;
  live?: string;
  used_bytes: number;
}
export type AuditFilter = { account?: string; action?: string; address?: string; from_ms?: number };

const account = (name: string) => `/accounts/${encodeURIComponent(name)}`;

export const accounts = () => ask<Account[]>('GET', '/accounts');
export const makeAccount = (body: { name: string; admin: boolean; quota_bytes?: number }) => ask<MadeAccount>('POST', '/accounts', { json: body });
export const changeAccount = (name: string, json: { admin?: boolean; disabled?: boolean; quota_bytes?: number | null }) =>
  ask<Account>('PATCH', account(name), { json });
export const signOutEverywhere = (name: string) => ask<{ ended: number }>('POST', `${account(name)}/sign-out`);
export const spaces = () => ask<AdminSpace[]>('GET', '/admin/spaces');
export const makeSpace = (json: { name: string; owner?: string; quota_bytes?: number }) => ask<AdminSpace>('POST', '/admin/spaces', { json });
export const changeSpace = (name: string, json: { quota_bytes?: number | null; retention_days?: number }) =>
  ask<AdminSpace>('PATCH', `/admin/spaces/${encodeURIComponent(name)}`, { json });
export const monitor = () => ask<{ now_ms: number; all: Figures; pressure: Pressure }>('GET', '/admin/monitor');
export const history = () => ask<{ now_ms: number; minutes: Minute[] }>('GET', '/admin/monitor/history');
export const store = () => ask<Store>('GET', '/admin/store');
export const cluster = () => ask<Cluster>('GET', '/admin/cluster');
export const reclaim = () => ask<unknown>('POST', '/admin/reclaim');
export const sites = () => ask<Site[]>('GET', '/sites');
export const unpublish = (name: string) => ask<Site>('POST', `/sites/${encodeURIComponent(name)}/unpublish`, { json: {} });
export const rollBack = (name: string) => ask<Site>('POST', `/sites/${encodeURIComponent(name)}/rollback`, { json: {} });
export const settings = () => ask<Setting[]>('GET', '/admin/settings');
export const audit = (filter: AuditFilter, before?: string) =>
  ask<{ entries: AuditEntry[]; next?: string }>('GET', '/admin/audit', { query: { ...filter, before, limit: 100 } });
export const auditExport = (filter: AuditFilter, format: 'csv' | 'jsonl') => url('/admin/audit/export', { ...filter, format });
