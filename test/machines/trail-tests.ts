/**
 * Trail tests walk a machine through a table of events and compare each trail with the recorded one.
 *
 * A trail is text: for each event the state that the machine reached, its transition output, its changed context. The
 * machine runs alone, without a host, a disk or a clock. Every arrow of the machine must be in some row.
 */
import { expect, test } from '@jest/globals'
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
import { expectRecorded } from '../support/recorded-expectations.ts'

/** The title of a story, the events that the machine receives, and what differs from the other rows. */
export type TrailRow<E extends EventObject = EventObject> = readonly [
  title: string,
  events: readonly E[],
  options?: TrailOptions,
]

export interface TrailOptions {
  readonly input?: unknown
  /** Records only the last line, where another row shows the way to that state. */
  readonly onlyLastLine?: true
}

export const LAST_LINE: TrailOptions = { onlyLastLine: true }

/** Adds a test for each row, and one that fails when no row takes some arrow of the machine. */
export function trailTests<E extends EventObject>(
  machine: AnyStateMachine,
  input: unknown,
  rows: readonly TrailRow<E>[],
): void {
  test.each(rows)('%s', (_title, events, options = {}) => {
    const lines = trail(machine, { input, ...options }.input, events)
    expectRecorded(options.onlyLastLine === true ? lines.slice(-1) : lines)
  })

  test(`every arrow of the ${machine.id} is in one of these stories`, () => {
    const taken = new Set<AnyTransitionDefinition>()
    for (const [, events, options] of rows) trail(machine, { input, ...options }.input, events, taken)
    expect([...arrows(machine.root)].filter((arrow) => !taken.has(arrow)).map(nameOf)).toEqual([])
  })
}

/** Every row at every place, which the title names and some events reach. */
export const inEach = <E extends EventObject>(
  places: Readonly<Record<string, readonly E[]>>,
  rows: readonly TrailRow<E>[],
): TrailRow<E>[] =>
  Object.entries(places).flatMap(([place, eventsBefore]) =>
    rows.map(
      ([title, events, options = {}]): TrailRow<E> => [
        `${title} while ${place}`,
        [...eventsBefore, ...events],
        options,
      ],
    ),
  )

function trail(
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
