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
  /** What xstate made of the first step: all of the later ones but the context. undefined: the state is not left. */
  readonly template: AnyMachineSnapshot | undefined
}

/** The same machine, whose plain steps are quick. Shares everything else with it. */
export function withQuickSteps(machine: AnyStateMachine): AnyStateMachine {
  if (!isPlain(machine.root)) return machine
  const steps = new QuickSteps(machine)
  // Inherits every method, so that only `transition` differs; nothing is copied that could fall out of step.
  const quick: AnyStateMachine = Object.create(machine)
  quick.transition = (from, event, scope) => steps.step(from, event, scope)
  quick.getInitialSnapshot = (scope, input) => steps.initialSnapshot(scope, input)
  return quick
}

class QuickSteps {
  readonly #machine: AnyStateMachine
  /** By leaf, then by event. null: not plain, xstate's for good. */
  readonly #plans = new Map<AnyStateNode, Map<string, StepPlan | null>>()
  /** undefined: nobody was born yet. null: a birth is not plain, and xstate's for good. */
  #initialStep: StepPlan | null | undefined

  constructor(machine: AnyStateMachine) {
    this.#machine = machine
  }

  step(from: AnyMachineSnapshot, event: EventObject, scope: AnyActorScope): AnyMachineSnapshot {
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
      // As xstate says it: whoever throws while being born has a snapshot that says so, with what there is of its own.
      return { ...plan.template, context, status: 'error', error, children: {} }
    }
  }

  /** Straight into one leaf, with nothing on the way but what that leaf does when it is entered. */
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
    // Nothing here spawns: a machine that does is no plain one.
    return context({ input, self: scope.self, spawn: throwOnSpawn }) as object
  }

  /** xstate's own step, looked at. Only events the machine knows are remembered: their number is bounded. */
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
    // As in xstate: a state whose own arrow leads back to it is not left, unless the arrow says so.
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
    // Functions xstate made itself carry what they are on themselves.
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
  throw new Error('a life is born by its host, not spawned from a context')
}

// ---- doing -------------------------------------------------------------------------------------------------------

/** In order, each seeing what the assigns before it made of the context. Answers the last context. */
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

// ---- looking -----------------------------------------------------------------------------------------------------

interface TransitionMatch {
  /** undefined: there is a guard or a choice, so the arrow is not always this one. */
  readonly transition: AnyTransitionDefinition | undefined
}

/** The innermost state that knows the event has the say, as in xstate. undefined: nobody knows it. */
function findTransition(leaf: AnyStateNode, type: string): TransitionMatch | undefined {
  for (let node: AnyStateNode | undefined = leaf; node !== undefined; node = node.parent) {
    const transitions: readonly AnyTransitionDefinition[] = node.transitions.get(type) ?? []
    const [first] = transitions
    if (first !== undefined) return { transition: first.guard === undefined ? first : undefined }
  }
  return undefined
}

function findLeaf(snapshot: AnyMachineSnapshot): AnyStateNode | undefined {
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
