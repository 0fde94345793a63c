/** A few at a time: whoever wants a turn gets it when one is free, the last that asked first, since that is what is in view now. */

export interface Turns {
  /** Asks for a turn; `begin` is called when it has come. What is answered gives the turn back, or takes the wish back. */
  ask(begin: () => void): () => void;
}

export function turns(atOnce: number): Turns {
  let running = 0;
  const waiting: (() => void)[] = [];

  function next(): void {
    while (running < atOnce) {
      const begin = waiting.pop();
      if (!begin) return;
      running += 1;
      begin();
    }
  }

  return {
    ask(begin) {
      let state: 'waits' | 'runs' | 'over' = 'waits';
      const start = () => {
        state = 'runs';
        begin();
      };
      waiting.push(start);
      next();
      return () => {
        if (state === 'waits') waiting.splice(waiting.indexOf(start), 1);
        if (state === 'runs') running -= 1;
        state = 'over';
        next();
      };
    },
  };
}
