/**
 * The common step, and the common birth, taken quickly.
 *
 * Most transitions of a durable life are plain: one exact event, no guard, from one leaf to a sibling or to nowhere,
 * with named assigns and deeds. xstate works out anew at every event what that means (5 to 8 µs); here it is worked
 * out once for each arrow and state, and then only done (under 1 µs). Whatever is not plain is left to xstate: guards,
 * eventless arrows, nested targets, final states, anything it does not know. The first step along every arrow is
 * always xstate's own, and its result is the mould for the later ones.
 *
 * The actor stays xstate's: mailbox, inspection of events, actions and snapshots, everything but microsteps. That both
 * ways mean the same is held by tests over random machines; they run again at every upgrade, since this looks at
 * parts of xstate that are not its public face.
 */
import type {
  AnyActorScope,
  AnyMachineSnapshot,
  AnyStateMachine,
  AnyStateNode,
  AnyTransitionDefinition,
  EventObject,
} from 'xstate'

interface Args {
  readonly context: object
  readonly event: EventObject
  readonly self: unknown
  readonly system: unknown
}

type StepRun = (args: Args, params: unknown) => unknown

type StepAction =
  | {
      readonly is: 'assign'
      readonly params: unknown
      readonly assignment: StepRun | Readonly<Record<string, unknown>>
    }
  | { readonly is: 'run'; readonly params: unknown; readonly type: string; readonly exec: StepRun }

interface StepPlan {
  readonly deeds: readonly StepAction[]
  /** What xstate made of the first step: all of the later ones but the context. undefined: the state is not left. */
  readonly mould: AnyMachineSnapshot | undefined
}

/** The same machine, whose plain steps are quick. Shares everything else with it. */
export function withQuickSteps(machine: AnyStateMachine): AnyStateMachine {
  if (!isPlain(machine.root)) return machine
  const steps = new QuickSteps(machine)
  // Inherits every method, so that only `transition` differs; nothing is copied that could fall out of step.
  const quick: AnyStateMachine = Object.create(machine)
  quick.transition = (from, event, scope) => steps.step(from, event, scope)
  quick.getInitialSnapshot = (scope, input) => steps.birth(scope, input)
  return quick
}

class QuickSteps {
  readonly #machine: AnyStateMachine
  /** By leaf, then by event. null: not plain, xstate's for good. */
  readonly #plans = new Map<AnyStateNode, Map<string, StepPlan | null>>()
  /** undefined: nobody was born yet. null: a birth is not plain, and xstate's for good. */
  #cradle: StepPlan | null | undefined

  constructor(machine: AnyStateMachine) {
    this.#machine = machine
  }

  step(from: AnyMachineSnapshot, event: EventObject, scope: AnyActorScope): AnyMachineSnapshot {
    const leaf = from.status === 'active' ? leafOf(from) : undefined
    const plan = leaf === undefined ? null : this.#plans.get(leaf)?.get(event.type)
    if (plan === undefined && leaf !== undefined) return this.#first(leaf, from, event, scope)
    if (plan === null || plan === undefined) return this.#machine.transition(from, event, scope)
    const context = perform(plan.deeds, from.context, event, scope)
    if (plan.mould !== undefined) {
      return { ...plan.mould, context, children: from.children, historyValue: from.historyValue }
    }
    return context === from.context ? from : { ...from, context }
  }

  birth(scope: AnyActorScope, input: unknown): AnyMachineSnapshot {
    const cradle = this.#cradle
    if (cradle === undefined || cradle === null || cradle.mould === undefined) {
      const born = this.#machine.getInitialSnapshot(scope, input)
      if (cradle === undefined && born.status === 'active') this.#cradle = this.#cradleOf(born)
      return born
    }
    const event = { type: 'xstate.init', input }
    let context = {}
    try {
      context = { ...this.#firstContext(scope, input) }
      return { ...cradle.mould, context: perform(cradle.deeds, context, event, scope), children: {} }
    } catch (error) {
      // As xstate says it: whoever throws while being born has a snapshot that says so, with what there is of its own.
      return { ...cradle.mould, context, status: 'error', error, children: {} }
    }
  }

  /** Straight into one leaf, with nothing on the way but what that leaf does when it is entered. */
  #cradleOf(born: AnyMachineSnapshot): StepPlan | null {
    const { root } = this.#machine
    const leaf = leafOf(born)
    const way = [root.initial?.actions, root.entry]
    if (leaf === undefined || leaf.parent !== root || way.some((actions) => (actions?.length ?? 0) > 0))
      return null
    const deeds = leaf.entry.map((action) => this.#deed(action))
    return deeds.every((deed) => deed !== null) ? { deeds, mould: born } : null
  }

  #firstContext(scope: AnyActorScope, input: unknown): object {
    const { context } = this.#machine.config as { readonly context?: unknown }
    if (typeof context !== 'function') return (context ?? {}) as object
    // Nothing here spawns: a machine that does is no plain one.
    return context({ input, self: scope.self, spawn: refuseToSpawn }) as object
  }

  /** xstate's own step, looked at. Only events the machine knows are remembered: their number is bounded. */
  #first(
    leaf: AnyStateNode,
    from: AnyMachineSnapshot,
    event: EventObject,
    scope: AnyActorScope,
  ): AnyMachineSnapshot {
    const arrow = arrowOf(leaf, event.type)
    const after = this.#machine.transition(from, event, scope)
    if (arrow === undefined) return after
    const plans = this.#plans.get(leaf) ?? new Map<string, StepPlan | null>()
    plans.set(event.type, this.#plan(leaf, arrow, after))
    this.#plans.set(leaf, plans)
    return after
  }

  #plan(leaf: AnyStateNode, arrow: Arrow, after: AnyMachineSnapshot): StepPlan | null {
    const { transition } = arrow
    if (transition === undefined) return null
    const [target, ...others] = transition.target ?? []
    // As in xstate: a state whose own arrow leads back to it is not left, unless the arrow says so.
    const stays =
      target === undefined || (target === leaf && transition.source === leaf && !transition.reenter)
    if (!stays && !(others.length === 0 && isSibling(leaf, transition.source, target))) return null
    if (after.status !== 'active') return null
    const actions = stays ? transition.actions : [...leaf.exit, ...transition.actions, ...target.entry]
    const deeds = actions.map((action) => this.#deed(action))
    return deeds.every((deed) => deed !== null) ? { deeds, mould: stays ? undefined : after } : null
  }

  #deed(action: unknown): StepAction | null {
    const named =
      typeof action === 'object' && action !== null && 'type' in action ? action : { type: action }
    if (typeof named.type !== 'string') return null
    const params = 'params' in named ? named.params : undefined
    const made: unknown = this.#machine.implementations.actions[named.type as never]
    if (typeof made !== 'function') return null
    // Functions xstate made itself carry what they are on themselves.
    if (!('resolve' in made)) return { is: 'run', params, type: named.type, exec: made as StepRun }
    if (!('assignment' in made) || !('type' in made) || made.type !== 'xstate.assign') return null
    return {
      is: 'assign',
      params,
      assignment: made.assignment as StepRun | Readonly<Record<string, unknown>>,
    }
  }
}

function refuseToSpawn(): never {
  throw new Error('a life is born by its host, not spawned from a context')
}

// ---- doing -------------------------------------------------------------------------------------------------------

/** In order, each seeing what the assigns before it made of the context. Answers the last context. */
function perform(
  deeds: readonly StepAction[],
  first: object,
  event: EventObject,
  scope: AnyActorScope,
): object {
  let context = first
  for (const deed of deeds) {
    const args: Args = { context, event, self: scope.self, system: scope.system }
    const params = typeof deed.params === 'function' ? deed.params({ context, event }) : deed.params
    if (deed.is === 'assign') context = { ...context, ...assigned(deed.assignment, args, params) }
    else scope.actionExecutor({ type: deed.type, info: args as never, params, exec: deed.exec as never })
  }
  return context
}

function assigned(
  assignment: StepRun | Readonly<Record<string, unknown>>,
  args: Args,
  params: unknown,
): object {
  if (typeof assignment === 'function') return assignment(args, params) as object
  const update: Record<string, unknown> = {}
  for (const key of Object.keys(assignment)) {
    const made = assignment[key]
    update[key] = typeof made === 'function' ? made(args, params) : made
  }
  return update
}

// ---- looking -----------------------------------------------------------------------------------------------------

interface Arrow {
  /** undefined: there is a guard or a choice, so the arrow is not always this one. */
  readonly transition: AnyTransitionDefinition | undefined
}

/** The innermost state that knows the event has the say, as in xstate. undefined: nobody knows it. */
function arrowOf(leaf: AnyStateNode, type: string): Arrow | undefined {
  for (let node: AnyStateNode | undefined = leaf; node !== undefined; node = node.parent) {
    const transitions: readonly AnyTransitionDefinition[] = node.transitions.get(type) ?? []
    const [first] = transitions
    if (first !== undefined) return { transition: first.guard === undefined ? first : undefined }
  }
  return undefined
}

function leafOf(snapshot: AnyMachineSnapshot): AnyStateNode | undefined {
  // Not in the public type of a snapshot, but what `matches` and `getMeta` themselves look at.
  const { _nodes: nodes } = snapshot as unknown as { readonly _nodes: readonly AnyStateNode[] }
  for (const node of nodes) if (node.type === 'atomic') return node
  return undefined
}

const isSibling = (leaf: AnyStateNode, source: AnyStateNode, target: AnyStateNode): boolean =>
  source === leaf && target.type === 'atomic' && target.parent === leaf.parent

/** Nothing in it happens but by an exactly named event, in one place at a time. */
function isPlain(node: AnyStateNode): boolean {
  if (node.type === 'parallel' || node.type === 'history') return false
  if ((node.always?.length ?? 0) > 0 || node.invoke.length > 0 || node.after.length > 0) return false
  if ([...node.transitions.keys()].some((type) => type.includes('*') || type.startsWith('xstate.')))
    return false
  return Object.values(node.states).every(isPlain)
}
