/** The log messages that always mean a bug of this program, never trouble outside. The simulation fails at each. */
export const BUG_MESSAGES = {
  effectFailed: 'an effect failed',
  spawnThrew: 'an actor threw while it was spawned',
  spawnedTwice: 'actor not spawned: one of this kind and key exists',
  deliveryFailed: 'an event could not be delivered',
  finalOutputsFailed: 'the final outputs of an actor failed',
  participantThrew: 'a commit participant threw after its writes were on disk',
  observerThrew: 'an observer of a state change threw',
  beforeCommitThrew: 'the step before a commit threw',
  inputFailed: 'input of a worker connection could not be handled',
  pushFailed: 'a push could not be delivered',
} as const
