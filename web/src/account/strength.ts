/** How hard a password is to guess. Loaded when a new password is typed: the dictionaries are large. The drive has the last word. */
import { ZxcvbnFactory } from '@zxcvbn-ts/core';
import * as common from '@zxcvbn-ts/language-common';
import words from '@zxcvbn-ts/language-en/dist/commonWords.json.mjs';
import names from '@zxcvbn-ts/language-en/dist/firstnames.json.mjs';

export type Reason = 'pattern' | 'repeat' | 'sequence' | 'date' | 'common' | 'word' | 'own';

export interface Strength {
  /** 0 to 4; the drive takes 3 and more. */
  score: 0 | 1 | 2 | 3 | 4;
  why: Reason | null;
}

const REASONS: Record<string, Reason> = {
  straightRow: 'pattern', keyPattern: 'pattern', simpleRepeat: 'repeat', extendedRepeat: 'repeat', sequences: 'sequence',
  recentYears: 'date', dates: 'date', topTen: 'common', topHundred: 'common', common: 'common', similarToCommon: 'common',
  pwned: 'common', wordByItself: 'word', namesByThemselves: 'word', commonNames: 'word', wordSequence: 'word', userInputs: 'own',
};
const OWN_WORDS = ['holdfast', 'drive', 'webdav', 'admin', 'administrator', 'password', 'cloud', 'storage'];
/** Longer input takes long and is strong anyway. */
const CHARS_MAX = 100;

// Without translations the reasons come as keys, which have words in our own catalogue.
const meter = new ZxcvbnFactory({
  dictionary: { ...common.dictionary, 'commonWords-en': words, 'firstnames-en': names },
  graphs: common.adjacencyGraphs,
});

export function strength(password: string, name: string): Strength {
  const found = meter.check(password.slice(0, CHARS_MAX), [...OWN_WORDS, name]);
  return { score: found.score, why: REASONS[found.feedback.warning ?? ''] ?? null };
}
