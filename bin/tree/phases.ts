/** The phases of a run that a log can be narrowed to: the states of the run that writes one. */
export const RUN_PHASES = ['preparing', 'running', 'finalizing'] as const
export type ShownPhase = (typeof RUN_PHASES)[number]
