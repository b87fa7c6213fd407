// Without validatorUrl a document that others can reach is sent to a validator of Swagger's.
SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger-ui", deepLinking: true, validatorUrl: null });
