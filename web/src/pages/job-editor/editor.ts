import { useCallback, useMemo, useState } from 'react'
import { type JobDocument, parseText, textAt, textOf, valueAt, withValue } from './model/document'
import { errorAt, type PointedError } from './model/pointers'

/** One document with two views: the form and the JSON text. A change in one view updates the other. */
export type Editor = {
  document: JobDocument
  text: string
  /**
   * The error in the text if it is no valid document; else null. With an error, the form shows the last valid document.
   */
  broken: { error: string; line: number | null } | null
  errors: readonly PointedError[]
  value: (pointer: string) => unknown
  string: (pointer: string) => string
  error: (pointer: string) => string | undefined
  set: (pointer: string, value: unknown) => void
  setText: (text: string) => void
  replace: (document: JobDocument) => void
  showErrors: (errors: readonly PointedError[]) => void
}

type State = {
  document: JobDocument
  text: string
  broken: Editor['broken']
  errors: readonly PointedError[]
}

function stateOf(document: JobDocument): State {
  return { document, text: textOf(document), broken: null, errors: [] }
}

/** Removes the errors of a value that was changed. The server reports them again if they remain. */
function without(errors: readonly PointedError[], pointer: string): readonly PointedError[] {
  return errors.filter(
    error =>
      error.pointer !== pointer && !error.pointer.startsWith(`${pointer}/`) && !pointer.startsWith(`${error.pointer}/`),
  )
}

export function useEditor(initial: JobDocument): Editor {
  const [state, setState] = useState(() => stateOf(initial))
  const set = useCallback((pointer: string, value: unknown) => {
    setState(before => {
      const document = withValue(before.document, pointer, value)
      return { document, text: textOf(document), broken: null, errors: without(before.errors, pointer) }
    })
  }, [])
  const setText = useCallback((text: string) => {
    setState(before => {
      const parsed = parseText(text)
      return 'document' in parsed
        ? { document: parsed.document, text, broken: null, errors: [] }
        : { ...before, text, broken: parsed }
    })
  }, [])
  const replace = useCallback((document: JobDocument) => setState(stateOf(document)), [])
  const showErrors = useCallback((errors: readonly PointedError[]) => setState(before => ({ ...before, errors })), [])
  return useMemo(
    () => ({
      ...state,
      value: pointer => valueAt(state.document, pointer),
      string: pointer => textAt(state.document, pointer),
      error: pointer => errorAt(state.errors, pointer),
      set,
      setText,
      replace,
      showErrors,
    }),
    [state, set, setText, replace, showErrors],
  )
}
