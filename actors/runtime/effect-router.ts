/**
 * `routeEffects` passes each effect to the handler of its group: the word before the dot in the effect's type.
 */
import type { Effect } from './transition-output.ts'

type EffectGroup<F extends Effect> = F['type'] extends `${infer Group}.${string}` ? Group : never
type EffectHandlers<F extends Effect> = {
  readonly [R in EffectGroup<F>]: (effect: Extract<F, { readonly type: `${R}.${string}` }>) => void
}

export function routeEffects<F extends Effect>(handlers: EffectHandlers<F>): (effect: F) => void {
  const byName = new Map<string, (effect: never) => void>(Object.entries(handlers))
  return (effect) => {
    const handler = byName.get(effect.type.slice(0, effect.type.indexOf('.')))
    if (handler === undefined) throw new Error(`no handler for effect ${effect.type}`)
    // The cast holds because the handler was found by the effect's own group, which its parameter type names.
    handler(effect as never)
  }
}
