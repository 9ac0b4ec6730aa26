/**
 * The first form of the worker channel: the frames of the first released version, whose readers refuse every key that
 * they do not know.
 *
 * Later versions ignore unknown keys and frames, so `added` marks what came later, and a frame for a peer of the first
 * form is sent without that. A worker shows that it reads openly by a key of its `register`; a host of the first form
 * shows itself by refusing that key.
 */
import { type HostFrame, hostFrames, type WorkerFrame, type WorkerFrameOf, workerFrames } from './frames.ts'
import { createChecker, removeUnknownKeys } from './parse.ts'
import { asShape, type Shape } from './schema-errors.ts'

/** Whether this worker may refuse keys that the first form lacks: it names none itself. */
export function isFirstForm(register: WorkerFrameOf<'register'>): boolean {
  const schema = firstFormSchemas().get(register.type)
  return schema !== undefined && createChecker(schema)(register).ok
}

/** Returns the text of a frame in the first form; undefined when the first form has no such frame. */
export function firstFormText(frame: WorkerFrame | HostFrame): string | undefined {
  const schema = firstFormSchemas().get(frame.type)
  return schema === undefined ? undefined : JSON.stringify(removeUnknownKeys(schema, frame))
}

let schemas: ReadonlyMap<string, Shape> | undefined

/** The schemas of all frames of the first form, by type. */
export function firstFormSchemas(): ReadonlyMap<string, Shape> {
  schemas ??= new Map(
    Object.entries({ ...workerFrames, ...hostFrames })
      .map(([type, schema]) => [type, asShape(schema)] as const)
      .filter(([, schema]) => !isAdded(schema))
      .map(([type, schema]) => [type, withoutAdded(schema)]),
  )
  return schemas
}

const isAdded = (shape: Shape): boolean => shape['x-added'] === true

function withoutAdded(shape: Shape): Shape {
  const { properties, anyOf, items } = shape
  const kept = Object.entries(properties ?? {}).filter(([, inner]) => !isAdded(inner))
  return {
    ...shape,
    ...(properties === undefined
      ? {}
      : { properties: Object.fromEntries(kept.map(([key, inner]) => [key, withoutAdded(inner)])) }),
    ...(anyOf === undefined ? {} : { anyOf: anyOf.filter((branch) => !isAdded(branch)).map(withoutAdded) }),
    ...(items === undefined ? {} : { items: withoutAdded(items) }),
  }
}
