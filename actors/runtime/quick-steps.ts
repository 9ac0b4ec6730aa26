/**
 * `withQuickSteps` makes the plain transitions of a machine fast: it plans each once and then replays the plan.
 *
 * A transition is plain when it has one exact event, no guard, a sibling leaf or no target, and named actions. xstate
 * interprets it again at every event (5 to 8 µs); a replayed plan takes under 1 µs. xstate itself runs the first step
 * of every transition, whose result is the template for later ones, and every transition that is not plain. Actors,
 * events and snapshots stay xstate's, only microsteps are not inspected. This file reads private parts of xstate: tests
 * over random machines compare both step functions, so run them at every upgrade.
 */
import type {
  AnyActorScope,
  AnyMachineSnapshot,
  AnyStateMachine,
  AnyStateNode,
  AnyTransitionDefinition,
  EventObject,
} from 'xstate'

interface StepArgs {
  readonly context: object
  readonly event: EventObject
  readonly self: unknown
  readonly system: unknown
}

type StepFunction = (args: StepArgs, params: unknown) => unknown

type StepAction =
  | {
      readonly is: 'assign'
      readonly params: unknown
      readonly assignment: StepFunction | Readonly<Record<string, unknown>>
    }
  | { readonly is: 'run'; readonly params: unknown; readonly type: string; readonly exec: StepFunction }

interface StepPlan {
  readonly actions: readonly StepAction[]
  /** The snapshot after xstate's own first step; later steps replace its context. undefined: the state is not left. */
  readonly template: AnyMachineSnapshot | undefined
}

/** The event that xstate sends to an actor whose parent stops it. */
const STOP = 'xstate.stop'

/** Returns a machine that differs only in the speed of its plain steps. */
export function withQuickSteps(machine: AnyStateMachine): AnyStateMachine {
  if (!isPlain(machine.root)) return machine
  const steps = new QuickSteps(machine)
  // Inherit from the machine instead of copying it, so that everything but these two methods stays the same.
  const quick: AnyStateMachine = Object.create(machine)
  quick.transition = (from, event, scope) => steps.step(from, event, scope)
  quick.getInitialSnapshot = (scope, input) => steps.initialSnapshot(scope, input)
  return quick
}

class QuickSteps {
  readonly #machine: AnyStateMachine
  /** Plans by leaf, then by event type. null: not plain, xstate always runs it. */
  readonly #plans = new Map<AnyStateNode, Map<string, StepPlan | null>>()
  /** How an actor starts. undefined: none has started yet. null: not plain, xstate always runs it. */
  #initialStep: StepPlan | null | undefined

  constructor(machine: AnyStateMachine) {
    this.#machine = machine
  }

  step(from: AnyMachineSnapshot, event: EventObject, scope: AnyActorScope): AnyMachineSnapshot {
    // As in xstate: a stopped actor keeps its state, and no action runs.
    if (event.type === STOP) return { ...from, status: 'stopped' } as AnyMachineSnapshot
    const leaf = from.status === 'active' ? findLeaf(from) : undefined
    const plan = leaf === undefined ? null : this.#plans.get(leaf)?.get(event.type)
    if (plan === undefined && leaf !== undefined) return this.#runFirstStep(leaf, from, event, scope)
    if (plan === null || plan === undefined) return this.#machine.transition(from, event, scope)
    const context = runActions(plan.actions, from.context, event, scope)
    if (plan.template !== undefined) {
      return { ...plan.template, context, children: from.children, historyValue: from.historyValue }
    }
    return context === from.context ? from : { ...from, context }
  }

  initialSnapshot(scope: AnyActorScope, input: unknown): AnyMachineSnapshot {
    const plan = this.#initialStep
    if (plan === undefined || plan === null || plan.template === undefined) {
      const initial = this.#machine.getInitialSnapshot(scope, input)
      if (plan === undefined && initial.status === 'active')
        this.#initialStep = this.#planInitialStep(initial)
      return initial
    }
    const event = { type: 'xstate.init', input }
    let context = {}
    try {
      context = { ...this.#initialContext(scope, input) }
      return { ...plan.template, context: runActions(plan.actions, context, event, scope), children: {} }
    } catch (error) {
      // As in xstate: an actor that throws while it starts has a snapshot with status `error` and its context so far.
      return { ...plan.template, context, status: 'error', error, children: {} }
    }
  }

  /** Plans the start when it leads straight into one leaf, and only that leaf has entry actions. */
  #planInitialStep(initial: AnyMachineSnapshot): StepPlan | null {
    const { root } = this.#machine
    const leaf = findLeaf(initial)
    const outerActions = [root.initial?.actions, root.entry]
    if (
      leaf === undefined ||
      leaf.parent !== root ||
      outerActions.some((actions) => (actions?.length ?? 0) > 0)
    )
      return null
    const actions = leaf.entry.map((action) => this.#toStepAction(action))
    return actions.every((action) => action !== null) ? { actions, template: initial } : null
  }

  #initialContext(scope: AnyActorScope, input: unknown): object {
    const { context } = this.#machine.config as { readonly context?: unknown }
    if (typeof context !== 'function') return (context ?? {}) as object
    // Machines of this project never spawn from a context, so `spawn` may throw.
    return context({ input, self: scope.self, spawn: throwOnSpawn }) as object
  }

  /** Lets xstate take the step and plans later ones. Only events that the machine handles get a plan. */
  #runFirstStep(
    leaf: AnyStateNode,
    from: AnyMachineSnapshot,
    event: EventObject,
    scope: AnyActorScope,
  ): AnyMachineSnapshot {
    const match = findTransition(leaf, event.type)
    const after = this.#machine.transition(from, event, scope)
    if (match === undefined) return after
    const plans = this.#plans.get(leaf) ?? new Map<string, StepPlan | null>()
    plans.set(event.type, this.#planStep(leaf, match, after))
    this.#plans.set(leaf, plans)
    return after
  }

  #planStep(leaf: AnyStateNode, match: TransitionMatch, after: AnyMachineSnapshot): StepPlan | null {
    const { transition } = match
    if (transition === undefined) return null
    const [target, ...others] = transition.target ?? []
    // As in xstate: a transition from a state to itself does not leave it, unless it reenters.
    const stays =
      target === undefined || (target === leaf && transition.source === leaf && !transition.reenter)
    if (!stays && !(others.length === 0 && isSibling(leaf, transition.source, target))) return null
    if (after.status !== 'active') return null
    const actions = stays ? transition.actions : [...leaf.exit, ...transition.actions, ...target.entry]
    const stepActions = actions.map((action) => this.#toStepAction(action))
    return stepActions.every((action) => action !== null)
      ? { actions: stepActions, template: stays ? undefined : after }
      : null
  }

  #toStepAction(action: unknown): StepAction | null {
    const named =
      typeof action === 'object' && action !== null && 'type' in action ? action : { type: action }
    if (typeof named.type !== 'string') return null
    const params = 'params' in named ? named.params : undefined
    const made: unknown = this.#machine.implementations.actions[named.type as never]
    if (typeof made !== 'function') return null
    // Functions that xstate created, such as `assign`, carry their kind as properties.
    if (!('resolve' in made)) return { is: 'run', params, type: named.type, exec: made as StepFunction }
    if (!('assignment' in made) || !('type' in made) || made.type !== 'xstate.assign') return null
    return {
      is: 'assign',
      params,
      assignment: made.assignment as StepFunction | Readonly<Record<string, unknown>>,
    }
  }
}

function throwOnSpawn(): never {
  throw new Error('actors are spawned by the actor system, not from a context')
}

// ---- running actions ---------------------------------------------------------------------------------------------

/** Runs actions in order, each with the context that earlier assigns left. Returns the last context. */
function runActions(
  actions: readonly StepAction[],
  initialContext: object,
  event: EventObject,
  scope: AnyActorScope,
): object {
  let context = initialContext
  for (const action of actions) {
    const args: StepArgs = { context, event, self: scope.self, system: scope.system }
    const params = typeof action.params === 'function' ? action.params({ context, event }) : action.params
    if (action.is === 'assign')
      context = { ...context, ...evaluateAssignment(action.assignment, args, params) }
    else scope.actionExecutor({ type: action.type, info: args as never, params, exec: action.exec as never })
  }
  return context
}

function evaluateAssignment(
  assignment: StepFunction | Readonly<Record<string, unknown>>,
  args: StepArgs,
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

// ---- reading the machine -----------------------------------------------------------------------------------------

interface TransitionMatch {
  /** undefined: a guard decides which transition is taken. */
  readonly transition: AnyTransitionDefinition | undefined
}

/** Finds the transition of the innermost state that handles the event, as xstate does; undefined when none does. */
function findTransition(leaf: AnyStateNode, type: string): TransitionMatch | undefined {
  for (let node: AnyStateNode | undefined = leaf; node !== undefined; node = node.parent) {
    const transitions: readonly AnyTransitionDefinition[] = node.transitions.get(type) ?? []
    const [first] = transitions
    if (first !== undefined) return { transition: first.guard === undefined ? first : undefined }
  }
  return undefined
}

function findLeaf(snapshot: AnyMachineSnapshot): AnyStateNode | undefined {
  // `_nodes` is not in the public type of a snapshot, but xstate's own `matches` and `getMeta` read it.
  const { _nodes: nodes } = snapshot as unknown as { readonly _nodes: readonly AnyStateNode[] }
  for (const node of nodes) if (node.type === 'atomic') return node
  return undefined
}

const isSibling = (leaf: AnyStateNode, source: AnyStateNode, target: AnyStateNode): boolean =>
  source === leaf && target.type === 'atomic' && target.parent === leaf.parent

/** Whether every transition in it needs an exactly named event, and only one state is active at a time. */
function isPlain(node: AnyStateNode): boolean {
  if (node.type === 'parallel' || node.type === 'history') return false
  if ((node.always?.length ?? 0) > 0 || node.invoke.length > 0 || node.after.length > 0) return false
  if ([...node.transitions.keys()].some((type) => type.includes('*') || type.startsWith('xstate.')))
    return false
  return Object.values(node.states).every(isPlain)
}
