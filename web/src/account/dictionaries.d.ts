/** Parts of the dictionaries that the package has no types for; all of them are twice as large. */
declare module '@zxcvbn-ts/language-en/dist/commonWords.json.mjs' {
  const words: string[];
  export default words;
}
declare module '@zxcvbn-ts/language-en/dist/firstnames.json.mjs' {
  const names: string[];
  export default names;
}
