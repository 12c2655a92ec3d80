/** Computes the change from one set of parameters to another, in the form of the API: null removes a name. */

type Values = Record<string, unknown>

export type ParametersText = { edit: Values } | { error: string }

/** Parses the typed parameters and timeout, and compares them with those of the run. */
export function editOf(before: Values, typed: string, timeoutBefore: string, timeout: string): ParametersText {
  const read = readObject(typed)
  if ('error' in read) return read
  const parameters: Values = {}
  for (const name of Object.keys(before)) if (!(name in read.value)) parameters[name] = null
  for (const [name, value] of Object.entries(read.value))
    if (!(name in before) || JSON.stringify(before[name]) !== JSON.stringify(value)) parameters[name] = value
  const edit: Values = {}
  if (Object.keys(parameters).length > 0) edit.parameters = parameters
  if (timeout.trim() !== timeoutBefore) edit.timeout = timeout.trim() === '' ? null : timeout.trim()
  return { edit }
}

function readObject(text: string): { value: Values } | { error: string } {
  if (text.trim() === '') return { value: {} }
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { value: value as Values }
    return { error: 'Parameters are an object: {"name": value}.' }
  } catch (error) {
    return { error: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` }
  }
}
