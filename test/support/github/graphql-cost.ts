/**
 * Computes the cost of a query and whether it writes. The cost is the number of requests that its connections would
 * need, divided by 100, at least one point.
 */
import { type FieldNode, type OperationDefinitionNode, parse, type SelectionSetNode } from 'graphql'

const REQUESTS_PER_POINT = 100

/** An unreadable query counts as a read. */
export function writes(query: string): boolean {
  try {
    return parse(query).definitions.some(
      (definition) => definition.kind === 'OperationDefinition' && definition.operation === 'mutation',
    )
  } catch {
    return false
  }
}

export function costOf(query: string, variables: Readonly<Record<string, unknown>>): number {
  try {
    const { definitions } = parse(query)
    const fragments = new Map(
      definitions.flatMap((definition) =>
        definition.kind === 'FragmentDefinition' ? [[definition.name.value, definition.selectionSet]] : [],
      ),
    )
    const operation = definitions.find(
      (definition): definition is OperationDefinitionNode => definition.kind === 'OperationDefinition',
    )
    const requests =
      operation === undefined ? 0 : requestsIn(operation.selectionSet, 1, { fragments, variables })
    return Math.max(1, Math.round(requests / REQUESTS_PER_POINT))
  } catch {
    return 1
  }
}

interface CostContext {
  readonly fragments: ReadonlyMap<unknown, unknown>
  readonly variables: Readonly<Record<string, unknown>>
}

/** `times`: number of objects that the selection applies to. */
function requestsIn(set: SelectionSetNode | undefined, times: number, context: CostContext): number {
  return (set?.selections ?? []).reduce((sum, selection) => {
    if (selection.kind === 'InlineFragment') return sum + requestsIn(selection.selectionSet, times, context)
    if (selection.kind === 'Field') return sum + requestsOf(selection, times, context)
    // The map holds fragment definitions, whose value is a selection set.
    const fragment = context.fragments.get(selection.name.value) as SelectionSetNode | undefined
    return sum + requestsIn(fragment, times, context)
  }, 0)
}

function requestsOf(field: FieldNode, times: number, context: CostContext): number {
  const size = sizeOf(field, context)
  if (size === undefined) return requestsIn(field.selectionSet, times, context)
  return times + requestsIn(field.selectionSet, times * size, context)
}

function sizeOf({ arguments: given = [] }: FieldNode, { variables }: CostContext): number | undefined {
  const bound = given.find(({ name }) => name.value === 'first' || name.value === 'last')?.value
  if (bound?.kind === 'IntValue') return Number(bound.value)
  return bound?.kind === 'Variable' ? Number(variables[bound.name.value] ?? 0) : undefined
}
