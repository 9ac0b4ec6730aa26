/**
 * Assembles an actor system and its modules. Each needs the other: modules send events to actors, and the system asks
 * the modules to carry out effects and to write to commits.
 */
import { kindName } from './actor-kind.ts'
import { ActorSystem, type ActorSystemOptions } from './actor-system.ts'
import { type ChangeOf, createModules, type ModuleDefinition, ModuleList } from './module.ts'

export interface AssembledSystem<C> {
  readonly context: C
  readonly system: ActorSystem
  readonly modules: ModuleList<ChangeOf<C>>
  /** Starts the actors of which there is one each. */
  startSingletons(): void
}

type SystemPorts = Pick<
  ActorSystemOptions,
  'clock' | 'trustedNow' | 'database' | 'log' | 'meters' | 'onFatal'
>

/**
 * @param createContext what the modules are created with. `modules` answers the finished list; nothing may call it
 * before every module is created.
 */
export function assembleSystem<C>(
  ports: SystemPorts,
  definitions: readonly ModuleDefinition<C>[],
  createContext: (system: ActorSystem, modules: () => ModuleList<ChangeOf<C>>) => C,
): AssembledSystem<C> {
  const kinds = definitions.flatMap(({ kinds = [] }) => kinds)
  let modules = new ModuleList<ChangeOf<C>>(new Map())
  const system = new ActorSystem({
    ...ports,
    kinds,
    modules: () => modules,
  })
  const context = createContext(system, () => modules)
  modules = createModules(definitions, context)
  return {
    context,
    system,
    modules,
    startSingletons() {
      for (const { name, singleton } of kinds) if (singleton) system.spawn(kindName(name), name, {})
    },
  }
}
