/** The height of a row, as the tokens have it for this device: virtual lists must know it. */
const narrow = matchMedia('(pointer: coarse), (width < 640px)');
let row = $state(0);

function read(): void {
  row = Number.parseInt(getComputedStyle(document.documentElement).getPropertyValue('--row'), 10) || 44;
}
read();
narrow.addEventListener('change', read);

export const measure = {
  get row() { return row || 44; },
};
