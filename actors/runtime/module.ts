/**
 * A module is one part of a process: the actor kinds it brings, the effects it carries out, and what it does when the
 * process starts, commits, changes its configuration or stops.
 *
 * Modules know each other in three ways and no fourth: an event to an actor, a change that every module may observe,
 * and a view. A module is created with the views of modules that stand before it in the list, so no two depend on
 * each other.
 */
import type { Meters } from '../../core/ports/log.ts'
import type { ActorKind, KindName } from './actor-kind.ts'
import type { StateChange } from './actor-system.ts'
import type { CommitParticipant } from './commit-loop.ts'
import type { TimerHandler } from './timer-kind.ts'
import type { Effect } from './transition-output.ts'

/** Every module that others may ask declares its view here, in its own file, by its own name. */
// biome-ignore lint/suspicious/noEmptyInterface: modules add to it by declaration merging; the runtime knows none
export interface ModuleViews {}

/** Observes new states of the actors of one kind. The states are not on disk yet. */
export interface StateObserver {
  readonly kind: string
  onChange(change: StateChange): void
}

/** Checks that the observer takes what actors of this kind have in their context. */
export const observeKind = <C>(
  kind: KindName<C>,
  onChange: (change: StateChange<C>) => void,
): StateObserver => ({ kind, onChange })

/** The changes of views that the modules of a process publish: whatever the `publish` of their context takes. */
export type ChangeOf<C> = C extends { readonly publish: (change: infer H) => void } ? H : never

export interface Module<H = never> {
  /** Carries out effects, by the word before the dot in their type. */
  readonly effects?: ModuleEffects
  readonly onStateChange?: readonly StateObserver[]
  onViewChange?(change: H): void
  /** Each writes to every commit that it has something for. */
  readonly participants?: readonly CommitParticipant[]
  /** The last moment to send events that are still part of the commit about to be taken. */
  readonly beforeCommit?: () => void
  /** Input has arrived and waits for its turn; a commit waits a moment for it. */
  readonly hasInput?: () => boolean
  readonly onTimer?: readonly TimerHandler[]
  /** Every stored actor is back and no listener is open: records and actors are brought into agreement. */
  readonly onRestored?: () => void
  readonly start?: () => void
  /** The process is about to stop, and its connections are still open. */
  readonly drain?: () => Promise<unknown>
  readonly stop?: () => void
  readonly onConfigChange?: () => void
  /** The store takes writes again. */
  readonly onStoreReady?: () => void
  readonly reportGauges?: (meters: Meters) => void
  /** How many of each thing that comes and goes are in memory. At rest none of them may grow with the years. */
  readonly sizes?: () => Readonly<Record<string, number>>
}

type WithView<N extends string, H> = N extends keyof ModuleViews
  ? Module<H> & { readonly view: ModuleViews[N] }
  : Module<H>

export interface ModuleDefinition<C, N extends string = string> {
  readonly name: N
  readonly kinds?: readonly ActorKind[]
  create(context: C, views: ModuleViews): WithView<N, ChangeOf<C>>
}

/** Checks that a module has the view that it declares. */
export const defineModule =
  <C>() =>
  <const N extends string>(definition: ModuleDefinition<C, N>): ModuleDefinition<C, N> =>
    definition

// ---- effects -----------------------------------------------------------------------------------------------------

export type ModuleEffects = Readonly<Record<string, (effect: never) => void>>

type GroupOf<F extends Effect> = F['type'] extends `${infer Group}.${string}` ? Group : never

export type EffectHandlers<F extends Effect> = {
  readonly [G in GroupOf<F>]: (effect: Extract<F, { readonly type: `${G}.${string}` }>) => void
}

/** Checks that there is a handler for every group, and that each takes the effects of its own group. */
export const effectHandlers = <F extends Effect>(handlers: EffectHandlers<F>): ModuleEffects => handlers

// ---- the list ----------------------------------------------------------------------------------------------------

/** ModuleList holds every loop over modules. Each runs in the order of the list. */
export class ModuleList<H = never> {
  readonly participants: readonly CommitParticipant[]
  readonly views: ModuleViews
  readonly needs: readonly ViewNeed[]
  readonly #modules: readonly Module<H>[]
  readonly #effects: ReadonlyMap<string, (effect: never) => void>
  readonly #timers: ReadonlyMap<string, TimerHandler>
  readonly #stateObservers: ReadonlyMap<string, readonly StateObserver[]>

  /** Throws when two modules have one name, one effect group or one timer, or when one needs a view too early. */
  constructor(modules: ReadonlyMap<string, Module<H>>, needs: readonly ViewNeed[] = []) {
    this.needs = needs
    this.#modules = [...modules.values()]
    this.participants = this.#modules.flatMap(({ participants = [] }) => participants)
    this.views = viewsOf(modules)
    this.#effects = claimed(this.#modules.map(({ effects = {} }) => effects))
    this.#timers = claimed(
      this.#modules.flatMap(({ onTimer = [] }) => onTimer.map((handler) => ({ [handler.kind]: handler }))),
    )
    this.#stateObservers = groupByKind(this.#modules.flatMap(({ onStateChange = [] }) => onStateChange))
  }

  runEffect(effect: Effect): void {
    const handle = this.#effects.get(effect.type.slice(0, effect.type.indexOf('.')))
    if (handle === undefined) throw new Error(`no module carries out ${effect.type}`)
    // The handler was found by the effect's own group, which is what its parameter type says.
    handle(effect as never)
  }

  onStateChange(change: StateChange): void {
    for (const observer of this.#stateObservers.get(change.kind) ?? []) observer.onChange(change)
  }

  onViewChange(change: H): void {
    for (const module of this.#modules) module.onViewChange?.(change)
  }

  hasInput(): boolean {
    return this.#modules.some(({ hasInput }) => hasInput?.() === true)
  }

  beforeCommit(): void {
    for (const { beforeCommit } of this.#modules) beforeCommit?.()
  }

  onTimer(key: string, name: string): void {
    const [kind = ''] = key.split(' ', 1)
    const handler = this.#timers.get(kind)
    if (handler === undefined) throw new Error(`no module has set the timer ${key}`)
    handler.onDue(key.slice(kind.length + 1), name)
  }

  onRestored(): void {
    for (const { onRestored } of this.#modules) onRestored?.()
  }

  start(): void {
    for (const { start } of this.#modules) start?.()
  }

  drain(): Promise<unknown> {
    return Promise.all(this.#modules.map(({ drain }) => drain?.()))
  }

  stop(): void {
    for (const { stop } of this.#modules) stop?.()
  }

  onConfigChange(): void {
    for (const { onConfigChange } of this.#modules) onConfigChange?.()
  }

  onStoreReady(): void {
    for (const { onStoreReady } of this.#modules) onStoreReady?.()
  }

  reportGauges(meters: Meters): void {
    for (const { reportGauges } of this.#modules) reportGauges?.(meters)
  }

  sizes(): Record<string, number> {
    return Object.assign({}, ...this.#modules.map(({ sizes }) => sizes?.() ?? {}))
  }
}

/** A module asked for the view of another while it was created. */
export interface ViewNeed {
  readonly module: string
  readonly view: string
}

/** Creates the modules in their order, each with the views of those before it. */
export function createModules<C>(
  definitions: readonly ModuleDefinition<C>[],
  context: C,
): ModuleList<ChangeOf<C>> {
  const modules = new Map<string, Module<ChangeOf<C>>>()
  const needs: ViewNeed[] = []
  for (const { name, create } of definitions) {
    if (modules.has(name)) throw new Error(`two modules are called ${name}`)
    modules.set(name, create(context, viewsFor(name, modules, needs)))
  }
  return new ModuleList(modules, needs)
}

function viewsFor(module: string, modules: ReadonlyMap<string, Module>, needs: ViewNeed[]): ModuleViews {
  // The empty target has the wider type because reading an unknown view throws.
  return new Proxy({} as ModuleViews, {
    get(_, view) {
      const owner = modules.get(String(view))
      if (owner === undefined || !('view' in owner))
        throw new Error(
          `${module} needs the view of ${String(view)}, which no module before it in the list has`,
        )
      needs.push({ module, view: String(view) })
      return owner.view
    },
  })
}

function viewsOf(modules: ReadonlyMap<string, Module>): ModuleViews {
  const views = [...modules].flatMap(([name, module]) => ('view' in module ? [[name, module.view]] : []))
  // `defineModule` has checked the type of each by its name.
  return Object.fromEntries(views) as ModuleViews
}

function claimed<T>(owned: readonly Readonly<Record<string, T>>[]): Map<string, T> {
  const owners = new Map<string, T>()
  for (const [name, owner] of owned.flatMap(Object.entries<T>)) {
    if (owners.has(name)) throw new Error(`two modules claim ${name}`)
    owners.set(name, owner)
  }
  return owners
}

function groupByKind(observers: readonly StateObserver[]): Map<string, readonly StateObserver[]> {
  const groups = new Map<string, readonly StateObserver[]>()
  for (const observer of observers)
    groups.set(observer.kind, [...(groups.get(observer.kind) ?? []), observer])
  return groups
}
