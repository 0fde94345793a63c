/** Transfers that the drive's servers run by schedule; for administrators. */
import { ask } from './http';

/** How the network to a drive is; TCP does not tell what is lost. */
export interface JobNetwork {
  plane: 'tcp' | 'quic';
  rtt_ms: number;
  lost?: number;
}
export interface JobRun {
  run: number;
  trigger: 'schedule' | 'start' | 'command' | 'api' | 'inbox' | 'mail' | 'retry' | 'resume';
  by?: string;
  began_ms?: number;
  ended_ms?: number;
  result?: 'succeeded' | 'partial' | 'failed' | 'put-aside' | 'interrupted' | 'stopped';
  done: { found: number; arrived: number; moved_bytes: number; failed: number; retries: number; network?: JobNetwork };
  /** While it is under way. */
  live?: { rate: number; found_bytes: number; settled_bytes: number; left_s?: number; moving: string[] };
  errors: string[];
  step_errors: string[];
}
export interface Job {
  name: string;
  state: 'waits' | 'asked' | 'running' | 'inactive';
  from: string[];
  to: string;
  when: string;
  next_ms?: number;
  variables: string[];
  file: string;
  line: number;
  last?: JobRun;
  last_ended?: JobRun;
}
export interface JobRuns {
  runs: JobRun[];
  next?: number;
}
export interface JobPreview {
  times_ms: number[];
  acts: { what: 'folder' | 'file' | 'link' | 'delete' | 'delete-source'; path: string; size_bytes?: number; replaces: boolean }[];
  more: boolean;
  same: number;
  skipped: number;
  errors: string[];
}

const at = (name: string) => `/admin/jobs/${encodeURIComponent(name)}`;

export const jobs = () => ask<{ configured: boolean; now_ms: number; runner?: string; jobs: Job[] }>('GET', '/admin/jobs');
export const job = (name: string) => ask<Job>('GET', at(name));
export const runs = (name: string, before?: number) => ask<JobRuns>('GET', `${at(name)}/runs`, { query: { before } });
export const start = (name: string, variables: Record<string, string>) => ask<unknown>('POST', `${at(name)}/runs`, { json: { variables } });
export const stop = (name: string, run: number) => ask<unknown>('POST', `${at(name)}/runs/${run}/stop`);
export const preview = (name: string) => ask<JobPreview>('POST', `${at(name)}/preview`, { json: {} });
