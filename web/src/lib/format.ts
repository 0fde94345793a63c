/** Sizes, times and rates as people read them, in the language of the pages. */

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

const numbers = new Map<string, Intl.NumberFormat>();

function number(language: string, digits: number): Intl.NumberFormat {
  const key = `${language} ${digits}`;
  let format = numbers.get(key);
  if (!format) {
    format = new Intl.NumberFormat(language, { maximumFractionDigits: digits });
    numbers.set(key, format);
  }
  return format;
}

/** `1,536` is `1.5 KiB`; below zero counts as zero, so nothing shows less than nothing. */
export function bytes(count: number, language: string): string {
  let value = Number.isFinite(count) ? Math.max(0, count) : 0;
  let unit = 0;
  // Rounded as shown, so that it never says 1,024 KiB.
  while (unit < UNITS.length - 1 && value >= 1023.95) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${number(language, digits).format(value)}\u00a0${UNITS[unit]}`;
}

export function count(value: number, language: string): string {
  return number(language, 0).format(value);
}

/** `0.012` is `1.2 %`. */
export function percent(share: number, language: string): string {
  return `${number(language, 1).format(share * 100)}\u00a0%`;
}

export function rate(bytesPerSecond: number, language: string): string {
  return `${bytes(bytesPerSecond, language)}/s`;
}

/** `75` is `1:15`, `3675` is `1:01:15`. */
export function clock(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return '–';
  const whole = Math.round(seconds);
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n: number) => String(n).padStart(2, '0');
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

const dates = new Map<string, Intl.DateTimeFormat>();

function dateFormat(language: string, key: 'day' | 'full' | 'time'): Intl.DateTimeFormat {
  const id = `${language} ${key}`;
  let format = dates.get(id);
  if (!format) {
    const options: Intl.DateTimeFormatOptions =
      key === 'day'
        ? { day: 'numeric', month: 'short', year: 'numeric' }
        : key === 'time'
          ? { hour: '2-digit', minute: '2-digit' }
          : { dateStyle: 'medium', timeStyle: 'short' };
    format = new Intl.DateTimeFormat(language, options);
    dates.set(id, format);
  }
  return format;
}

/** The time for today, the day for all else. */
export function when(ms: number, language: string, now = Date.now()): string {
  const sameDay = new Date(ms).toDateString() === new Date(now).toDateString();
  return dateFormat(language, sameDay ? 'time' : 'day').format(ms);
}

export function fullDate(ms: number, language: string): string {
  return dateFormat(language, 'full').format(ms);
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
];

/** `3 days ago`. */
export function ago(ms: number, language: string, now = Date.now()): string {
  const seconds = Math.round((ms - now) / 1000);
  const format = new Intl.RelativeTimeFormat(language, { numeric: 'auto' });
  for (const [unit, length] of STEPS) {
    if (Math.abs(seconds) >= length) return format.format(Math.round(seconds / length), unit);
  }
  return format.format(0, 'second');
}

/** The share used, 0 to 1, whatever the figures. */
export function share(used: number, total: number): number {
  if (!(total > 0)) return used > 0 ? 1 : 0;
  return Math.min(1, Math.max(0, used / total));
}
