/**
 * The trail of a machine is text: for each event the state it reached, its transition output, its changed context.
 *
 * The machine runs alone, without a host, a disk or a clock. A line lists everything that a transition can do.
 * `untakenArrows` names the arrows that no story takes, so a test can demand that every arrow is walked.
 */
import {
  type AnyStateMachine,
  type AnyStateNode,
  type AnyTransitionDefinition,
  createActor,
  type EventObject,
  type InspectionEvent,
} from 'xstate'
import { statePath } from '../../actors/runtime/snapshot-codec.ts'
import { createTransitionOutput, type TransitionOutput } from '../../actors/runtime/transition-output.ts'

export interface Story<E extends EventObject = EventObject> {
  readonly title: string
  readonly input: unknown
  readonly events: readonly E[]
  /** Records only the last line, where another story shows the way to that state. */
  readonly onlyLastLine?: true
}

export function trail(
  machine: AnyStateMachine,
  input: unknown,
  events: readonly EventObject[],
  taken = new Set<AnyTransitionDefinition>(),
): string[] {
  const actor = createActor(machine, {
    input,
    inspect: (seen) => {
      for (const transition of transitionsOf(seen)) taken.add(transition)
    },
  })
  const output = createTransitionOutput(actor.system)
  actor.start()
  let { context } = actor.getSnapshot()
  const describeStep = (name: string): string => {
    const snapshot = actor.getSnapshot()
    const what = [...drainOutput(output), ...changes(context, snapshot.context)].join(', ')
    context = snapshot.context
    return `${name} → ${statePath(snapshot.value)}${what === '' ? '' : ` : ${what}`}`
  }
  const lines = [describeStep('start')]
  for (const event of events) {
    actor.send(event)
    lines.push(describeStep(event.type))
  }
  return lines
}

/** Names the arrows that none of these stories takes. */
export function untakenArrows(machine: AnyStateMachine, stories: readonly Story[]): string[] {
  const taken = new Set<AnyTransitionDefinition>()
  for (const { input, events } of stories) trail(machine, input, events, taken)
  return [...arrows(machine.root)].filter((arrow) => !taken.has(arrow)).map(nameOf)
}

// ---- arrows ------------------------------------------------------------------------------------------------------

function* arrows(node: AnyStateNode): Iterable<AnyTransitionDefinition> {
  yield* node.always ?? []
  for (const transitions of node.transitions.values()) yield* transitions
  for (const child of Object.values(node.states)) yield* arrows(child)
}

function transitionsOf(seen: InspectionEvent): readonly AnyTransitionDefinition[] {
  return seen.type === '@xstate.microstep' ? seen._transitions : []
}

const nameOf = ({ source, eventType, guard }: AnyTransitionDefinition): string =>
  [
    source.path.join('.') || '(any)',
    'on',
    eventType,
    ...(guard === undefined ? [] : [JSON.stringify(guard)]),
  ].join(' ')

// ---- words -------------------------------------------------------------------------------------------------------

function drainOutput(output: TransitionOutput): string[] {
  const words = [
    ...output.effects
      .splice(0)
      .map((effect) => ('reason' in effect ? `${effect.type} (${effect.reason})` : effect.type)),
    ...output.messages
      .splice(0)
      .map((mail) =>
        mail.is === 'event'
          ? `send ${mail.to.kind} ${mail.to.key} ${mail.event.type}`
          : `spawn ${mail.to.kind} ${mail.to.key}`,
      ),
    ...output.deadlines
      .splice(0)
      .map((change) =>
        change.is === 'set'
          ? `${change.name} at ${new Date(change.at).toISOString()}`
          : `cancel ${change.name}`,
      ),
    ...(output.ended ? ['over'] : []),
  ]
  output.ended = false
  return words
}

/** The changed fields of the context; of a nested object, only its changed fields. */
function changes(before: object, after: object): string[] {
  const was = new Map<string, unknown>(Object.entries(before))
  const is = new Map<string, unknown>(Object.entries(after))
  const keys = new Set([...was.keys(), ...is.keys()])
  return [...keys].flatMap((key) => {
    const [old, now] = [was.get(key), is.get(key)]
    if (old === now || JSON.stringify(old) === JSON.stringify(now)) return []
    if (isPlain(old) && isPlain(now)) return changes(old, now)
    return [
      now === undefined
        ? `${key} forgotten`
        : `${key}=${typeof now === 'string' ? now : JSON.stringify(now)}`,
    ]
  })
}

const isPlain = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
