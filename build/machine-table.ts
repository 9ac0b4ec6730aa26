/**
 * `readMachineTable` reads a machine back as a table: its states, and every transition with event, guard and actions.
 *
 * Drawings of machines are made from this table alone, so they show what the machine does. Guards and actions must have
 * names, because a reader could not understand anonymous ones.
 */
import type { AnyStateMachine, AnyStateNode, AnyTransitionDefinition } from 'xstate'

export interface MachineTableState {
  /** Names of the states from the root down, joined by dots; '' for the root itself. */
  readonly path: string
  readonly kind: 'plain' | 'nested' | 'final'
  readonly initial: string | undefined
  readonly description: string | undefined
  readonly entry: readonly string[]
  readonly exit: readonly string[]
}

export interface MachineTableTransition {
  readonly from: string
  /** Equal to `from` when the state is not left. */
  readonly to: string
  /** undefined: the transition happens at once, whenever the guard holds. */
  readonly event: string | undefined
  readonly guard: string | undefined
  readonly actions: readonly string[]
}

export interface MachineTable {
  readonly id: string
  readonly states: readonly MachineTableState[]
  readonly transitions: readonly MachineTableTransition[]
}

export function readMachineTable(machine: AnyStateMachine): MachineTable {
  const nodes = [...walkNodes(machine.root)]
  return { id: machine.id, states: nodes.map(readState), transitions: nodes.flatMap(readTransitions) }
}

function* walkNodes(node: AnyStateNode): Iterable<AnyStateNode> {
  yield node
  for (const child of Object.values(node.states)) yield* walkNodes(child)
}

const nodePath = (node: AnyStateNode): string => node.path.join('.')

function readState(node: AnyStateNode): MachineTableState {
  if (node.type === 'parallel' || node.type === 'history') {
    throw new Error(`${node.id} is ${node.type}: use plain and nested states only`)
  }
  const initial = node.initial?.target[0]
  return {
    path: nodePath(node),
    kind: node.type === 'final' ? 'final' : node.type === 'compound' ? 'nested' : 'plain',
    initial: initial === undefined ? undefined : nodePath(initial),
    description: node.description,
    entry: node.entry.map((action) => requireName(action, `an entry deed of ${node.id}`)),
    exit: node.exit.map((action) => requireName(action, `an exit deed of ${node.id}`)),
  }
}

function readTransitions(node: AnyStateNode): MachineTableTransition[] {
  const eventless = (node.always ?? []).map((transition) => readTransition(node, transition, undefined))
  const onEvents = [...node.transitions].flatMap(([event, transitions]) =>
    transitions.map((transition) => readTransition(node, transition, event)),
  )
  return [...eventless, ...onEvents]
}

function readTransition(
  node: AnyStateNode,
  transition: AnyTransitionDefinition,
  event: string | undefined,
): MachineTableTransition {
  const where = `of ${node.id} on ${event ?? 'always'}`
  return {
    from: nodePath(node),
    to: nodePath(transition.target?.[0] ?? node),
    event,
    guard: transition.guard === undefined ? undefined : requireName(transition.guard, `the guard ${where}`),
    actions: transition.actions.map((action) => requireName(action, `a deed ${where}`)),
  }
}

function requireName(thing: unknown, what: string): string {
  if (typeof thing === 'string') return thing
  if (typeof thing === 'object' && thing !== null && 'type' in thing && typeof thing.type === 'string') {
    if (!thing.type.startsWith('xstate.')) return thing.type
  }
  throw new Error(`${what} has no name: name it in setup()`)
}
