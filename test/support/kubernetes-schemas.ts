/**
 * Compares objects with the published schemas of Kubernetes and KEDA.
 *
 * The validators of both packages let unknown keys pass. A validator reads every key that its schema names, so a key
 * that it never read is unknown.
 */
import { createRequire } from 'node:module'
import type { YamlMap } from '../../bin/cli/deploy/yaml.ts'

const require = createRequire(import.meta.url)

/** Where the model of an object is declared. */
const MODULES: Readonly<Record<string, string>> = {
  v1: 'kubernetes-models/v1',
  'apps/v1': 'kubernetes-models/apps/v1',
  'batch/v1': 'kubernetes-models/batch/v1',
  'networking.k8s.io/v1': 'kubernetes-models/networking.k8s.io/v1',
  'policy/v1': 'kubernetes-models/policy/v1',
  'keda.sh/v1alpha1': '@kubernetes-models/keda/keda.sh/v1alpha1',
}

/** Each problem in one line, with the path of the key or value. */
export function schemaProblems(object: YamlMap): string[] {
  const model = findModel(object)
  if (model === undefined) return [`no schema is known for ${object.apiVersion} ${object.kind}`]
  const unread = new Set<string>()
  const watched = watchKeys(object, '', unread)
  try {
    model.prototype.validate.call(watched)
  } catch (error) {
    return String(error instanceof Error ? error.message : error).split('\n')
  }
  return [...unread].map((path) => `${path} is unknown`)
}

interface ObjectModel {
  readonly prototype: { validate(): void }
}

function findModel({ apiVersion, kind }: YamlMap): ObjectModel | undefined {
  const path = MODULES[String(apiVersion)]
  if (path === undefined) return undefined
  const declared: unknown = Reflect.get(require(path), String(kind))
  return typeof declared === 'function' ? (declared as unknown as ObjectModel) : undefined
}

/** Adds the path of every key to `unread`, and takes it out again when the key is read. */
function watchKeys(value: object, path: string, unread: Set<string>): object {
  const pathOf = (key: string) => (Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`)
  const inner = Object.entries(value).map(([key, each]): [string, unknown] => {
    unread.add(pathOf(key))
    return [key, typeof each === 'object' && each !== null ? watchKeys(each, pathOf(key), unread) : each]
  })
  const copy: object = Array.isArray(value) ? inner.map(([, each]) => each) : Object.fromEntries(inner)
  return new Proxy(copy, {
    get(target, key) {
      if (typeof key === 'string') unread.delete(pathOf(key))
      return Reflect.get(target, key)
    },
  })
}
