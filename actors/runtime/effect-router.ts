/**
 * Joins each effect to the room that knows how to do it: the word before the dot is the room's name.
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
    if (handler === undefined) throw new Error(`no room does ${effect.type}`)
    // The room was found by the effect's own name, which is what its parameter type says.
    handler(effect as never)
  }
}
