/**
 * TimerKind declares what may have timers, and which: `leases` have `answer`, `away` and `cancel`. A key names one of
 * these things, such as one lease, and carries the names for the compiler.
 */
declare const names: unique symbol

export type TimerKey<N extends string = string> = string & { readonly [names]: N }

export interface TimerKind<N extends string> {
  readonly name: string
  /** @param id which thing of this kind; absent where there is one */
  key(id?: string | number): TimerKey<N>
}

export const timerKind = <N extends string>(name: string): TimerKind<N> => ({
  name,
  // A string has no names; they are what the caller declares.
  key: (id = '') => `${name} ${id}` as TimerKey<N>,
})

/** Handles the timers of one kind that are due. */
export interface TimerHandler {
  readonly kind: string
  onDue(id: string, name: string): void
}

/** Checks that the handler takes the names of this kind. */
export const handleTimer = <N extends string>(
  kind: TimerKind<N>,
  onDue: (id: string, name: N) => void,
): TimerHandler => ({ kind: kind.name, onDue })
